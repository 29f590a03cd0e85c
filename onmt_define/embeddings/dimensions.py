"""Checks of arguments whose messages say what would fit."""

from collections.abc import Iterable


class DimensionError(ValueError):
    """An argument that can't work: which one, its value, and what is expected instead."""

    def __init__(self, argument: str, value: object, expected: str) -> None:
        super().__init__(f"{argument} is {value!r}, expected {expected}")
        self.argument = argument
        self.value = value
        self.expected = expected


# A matrix with more rows or columns than this doesn't fit any machine, so it is a mistyped number.
MAX_WIDTH = 1 << 16


def require_between(argument: str, value: int, minimum: int, maximum: int = MAX_WIDTH) -> None:
    """Raise `DimensionError` unless `value` is a whole number from `minimum` to `maximum`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise DimensionError(argument, value, f"a whole number of at least {minimum}")
    if value > maximum:
        raise DimensionError(argument, value, f"at most {maximum}")


def require_multiple(argument: str, value: int, divisor: int, divisor_name: str) -> None:
    """Raise `DimensionError` naming the nearest fitting widths unless `divisor` divides `value`."""
    if value % divisor:
        below = value // divisor * divisor
        fitting = f"{below + divisor}" if below == 0 else f"{below} or {below + divisor}"
        raise DimensionError(
            argument, value, f"a multiple of {divisor} ({divisor_name}), for example {fitting}"
        )


def require_one_of(argument: str, value: object, choices: Iterable[object]) -> None:
    """Raise `DimensionError` listing the choices unless `value` is one of them."""
    if value not in (names := list(choices)):
        raise DimensionError(argument, value, f"one of {', '.join(map(str, names))}")


def require_probability(argument: str, value: float) -> None:
    """Raise `DimensionError` unless `value` is a number from 0 up to, not including, 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise DimensionError(argument, value, "a number from 0 up to but not including 1")
