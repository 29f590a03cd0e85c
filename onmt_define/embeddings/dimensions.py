"""Checks of layer sizes whose messages say what would fit."""


class DimensionError(ValueError):
    """A layer size that can't work: which argument, its value, and what is expected instead."""

    def __init__(self, argument: str, value: object, expected: str) -> None:
        super().__init__(f"{argument} is {value!r}, expected {expected}")
        self.argument = argument
        self.value = value
        self.expected = expected


def require_at_least(argument: str, value: int, minimum: int) -> None:
    """Raise `DimensionError` unless `value` is a whole number of at least `minimum`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise DimensionError(argument, value, f"a whole number of at least {minimum}")


def require_multiple(argument: str, value: int, divisor: int, divisor_name: str) -> None:
    """Raise `DimensionError` naming the nearest fitting widths unless `divisor` divides `value`."""
    if value % divisor:
        below = value // divisor * divisor
        fitting = f"{below + divisor}" if below == 0 else f"{below} or {below + divisor}"
        raise DimensionError(
            argument, value, f"a multiple of {divisor} ({divisor_name}), for example {fitting}"
        )
