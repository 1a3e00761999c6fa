"""Small changes to a file of source code, each of which some test should notice."""

import ast
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

__all__ = ["Mutant", "apply", "list_mutants"]

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
# What says something about code, or to people, and does nothing.
MUTE = (ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr, ast.Raise, ast.Pass)


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        key: Names it by what is changed, not by a line, so that it keeps its name when code moves.
        index: Its place among all of its file.
        lines: First and last line of what is changed.
        inside: Whether it lies in a function, which tests are seen to reach.
    """

    key: str
    index: int
    lines: tuple[int, int]
    inside: bool


@dataclass(frozen=True)
class _Change:
    node: ast.AST
    new: ast.AST
    statement: ast.stmt
    place: str
    inside: bool


def list_mutants(source: str, name: str) -> list[Mutant]:
    """All mutants of the file `name`, in the order of its text."""
    seen: Counter[str] = Counter()
    mutants = []
    for index, change in enumerate(_walk(ast.parse(source))):
        old, new = (" ".join(ast.unparse(node).split()) for node in (change.node, change.new))
        whole = ast.unparse(change.statement).splitlines()[0]
        key = f"{name} {change.place}: {_cut(old)} -> {_cut(new)}"
        if _cut(old) != _cut(whole):
            key += f" in {_cut(whole)}"
        seen[key] += 1
        key += f" (no. {seen[key]})" if seen[key] > 1 else ""
        lines = (change.node.lineno, change.node.end_lineno)  # type: ignore[attr-defined]
        mutants.append(Mutant(key, index, lines, change.inside))
    return mutants


def apply(source: str, index: int) -> ast.Module:
    """The file with one of its mutants in place."""
    tree = ast.parse(source)
    change = next(change for number, change in enumerate(_walk(tree)) if number == index)
    new = ast.copy_location(change.new, change.node)

    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is change.node else self.generic_visit(node)

    return ast.fix_missing_locations(Swap().visit(tree))


def _cut(text: str) -> str:
    return text if len(text) <= 90 else text[:87] + "..."


def _walk(tree: ast.Module) -> Iterator[_Change]:
    for statement in tree.body:
        yield from _walk_statement(statement, (), inside=False)


def _walk_statement(
    statement: ast.stmt, place: tuple[str, ...], *, inside: bool
) -> Iterator[_Change]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        place = (*place, statement.name)
        function = isinstance(statement, ast.FunctionDef)
        if isinstance(statement, ast.FunctionDef):
            defaults = [*statement.args.defaults, *filter(None, statement.args.kw_defaults)]
            for default in defaults:
                yield from _name(_walk_expression(default), statement, place, inside=False)
        for inner in statement.body:
            yield from _walk_statement(inner, place, inside=inside or function)
        return
    if _is_silent(statement):
        return
    if inside:
        yield from _name(_drop(statement), statement, place, inside=inside)
    for field, value in ast.iter_fields(statement):
        if field == "annotation" or isinstance(statement, MUTE):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.stmt):
                yield from _walk_statement(part, place, inside=inside)
            elif isinstance(part, ast.ExceptHandler):
                for inner in part.body:
                    yield from _walk_statement(inner, place, inside=inside)
            elif isinstance(part, ast.withitem):
                found = _walk_expression(part.context_expr)
                yield from _name(found, statement, place, inside=inside)
            elif isinstance(part, ast.expr):
                yield from _name(_walk_expression(part), statement, place, inside=inside)


def _name(
    pairs: Iterator[tuple[ast.AST, ast.AST]],
    statement: ast.stmt,
    place: tuple[str, ...],
    *,
    inside: bool,
) -> Iterator[_Change]:
    for old, new in pairs:
        yield _Change(old, new, statement, ".".join(place), inside)


def _is_silent(statement: ast.stmt) -> bool:
    """Docstrings, lists of names, and what only a type checker reads."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return True
    if isinstance(statement, ast.Assign):
        return ast.unparse(statement.targets[0]) == "__all__"
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"


def _drop(statement: ast.stmt) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Statements left out, and results not returned; not what would only lack a name."""
    if isinstance(statement, ast.Return) and statement.value is not None:
        if not (isinstance(statement.value, ast.Constant) and statement.value.value is None):
            yield statement.value, ast.Constant(None)
    elif isinstance(statement, ast.Expr | ast.AugAssign | ast.Raise | ast.Continue | ast.Break):
        yield statement, ast.Pass()


def _walk_expression(root: ast.expr) -> Iterator[tuple[ast.AST, ast.AST]]:
    if isinstance(root, MUTE):
        return
    yield from _change(root)
    for child in ast.iter_child_nodes(root):
        if isinstance(child, ast.keyword):
            yield from _walk_expression(child.value)
        elif isinstance(child, ast.comprehension):
            for part in (child.iter, *child.ifs):
                yield from _walk_expression(part)
        elif isinstance(child, ast.expr):
            yield from _walk_expression(child)


def _change(node: ast.expr) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Everything that is done to one expression."""
    new: ast.expr
    if isinstance(node, ast.Compare):
        for number, operator in enumerate(node.ops):
            new = deepcopy(node)
            new.ops[number] = COMPARISONS[type(operator)]()
            yield node, new
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield node, ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield node, ast.BoolOp(other, node.values)
    elif isinstance(node, ast.UnaryOp):
        yield node, node.operand
    elif isinstance(node, ast.IfExp):
        yield node, ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Constant):
        value = _alter(node.value)
        if value is not None:
            yield node, ast.Constant(value)
    elif isinstance(node, ast.Call):
        yield from _change_call(node)


def _change_call(node: ast.Call) -> Iterator[tuple[ast.AST, ast.AST]]:
    """A call without one of its arguments; a method that takes none, not called."""
    for number, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            rest = node.keywords[:number] + node.keywords[number + 1 :]
            yield node, ast.Call(node.func, node.args, rest)
    if len(node.args) > 1 and not isinstance(node.args[-1], ast.Starred):
        yield node, ast.Call(node.func, node.args[:-1], node.keywords)
    if isinstance(node.func, ast.Attribute) and not (node.args or node.keywords):
        yield node, node.func.value


def _alter(value: object) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return 2 * value if value else 1.0
    return None
