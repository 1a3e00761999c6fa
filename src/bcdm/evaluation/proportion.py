"""How sure a fraction of few cases is."""

__all__ = ["wilson"]

_SQUARE = 1.96**2


def wilson(fraction: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a fraction seen in `count` independent cases (Wilson 1927).

    >>> [round(end, 3) for end in wilson(0.75, 20)]
    [0.531, 0.888]
    """
    middle = fraction + _SQUARE / (2 * count)
    half = (_SQUARE * fraction * (1 - fraction) / count + (_SQUARE / (2 * count)) ** 2) ** 0.5
    whole = 1 + _SQUARE / count
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)
