"""Ticks of axes and colour bars, and their numbers."""

import math
from collections.abc import Sequence

__all__ = ["choose_ticks", "format_number", "format_ticks", "round_up"]


def choose_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten within [low, high], about `count` of them.

    >>> choose_ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    step = _choose_step((high - low) / count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # Rounding to the step's own decimals turns 0.6000000000000001 into 0.6.
    decimals = max(0, 1 - math.floor(math.log10(step)))
    return [round(k * step, decimals) + 0.0 for k in range(first, last + 1)]


def format_ticks(ticks: Sequence[float]) -> list[str]:
    """Even ticks as text, with as many digits as tell them apart.

    >>> format_ticks([0, 0.5, 1]), format_ticks([0, 2e9, 4e9])
    (['0.0', '0.5', '1.0'], ['0', '2e9', '4e9'])
    """
    largest = max(map(abs, ticks)) or 1.0
    step = ticks[1] - ticks[0] if len(ticks) > 1 else largest
    if 1e-4 <= largest < 1e6:
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        return [_set(f"{tick:.{decimals}f}") for tick in ticks]
    digits = max(0, math.ceil(math.log10(largest / step) - 1e-9))
    return [_set(f"{tick:.{digits}e}") if tick else "0" for tick in ticks]


def format_number(value: float) -> str:
    """A number with at most four digits that count.

    >>> format_number(0.5), format_number(-1234.0), format_number(1e-7)
    ('0.5', '−1234', '1e−7')
    """
    return _set(f"{value:.4g}")


def round_up(value: float) -> float:
    """The next number whose half has two digits that count.

    >>> round_up(0.0432), round_up(0.0441)
    (0.044, 0.046)
    """
    power = math.floor(math.log10(value)) - 1
    return float(f"{2 * math.ceil(value / 10.0**power / 2 - 1e-9)}e{power}")


def _choose_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(unit * power for unit in (1, 2, 5, 10) if unit * power >= rough * (1 - 1e-9))


def _set(text: str) -> str:
    """Sets a number as in print: a true minus, no zeros in the exponent."""
    digits, _, power = text.partition("e")
    digits = digits.rstrip("0").rstrip(".") if power and "." in digits else digits
    return (f"{digits}e{int(power)}" if power else digits).replace("-", "\N{MINUS SIGN}")
