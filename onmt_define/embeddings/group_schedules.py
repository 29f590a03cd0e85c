"""How many groups each map of a DeFINE unit has: the schedules of the paper and its ablations."""

from collections.abc import Callable

from onmt_define.embeddings.dimensions import DimensionError, require_one_of


def cyclic_groups(depth: int, max_groups: int) -> list[int]:
    """1, 2, 4, ..., max_groups, 1, 2, ... read backwards, so that the last map is dense.

    The schedule that the printed parameter counts of Tables 1a, 2 and 7 force.
    """
    powers = [2**power for power in range(max_groups.bit_length())]
    return [powers[index % len(powers)] for index in reversed(range(depth))]


def halving_groups(depth: int, max_groups: int) -> list[int]:
    """max_groups, max_groups / 2, ..., 1, 1: Equation 1 of the paper."""
    return [max(max_groups >> index, 1) for index in range(depth)]


def constant_groups(depth: int, max_groups: int) -> list[int]:
    """The same number everywhere: group linear transforms, or plain linear maps if it is 1."""
    return [max_groups] * depth


SCHEDULES: dict[str, Callable[[int, int], list[int]]] = {
    "cyclic": cyclic_groups,
    "halving": halving_groups,
    "constant": constant_groups,
}


def check_schedule(schedule: str, max_groups: int) -> None:
    """Raise `DimensionError` for an unknown schedule or a maximum that it can't halve down to 1."""
    require_one_of("schedule", schedule, SCHEDULES)
    if schedule != "constant" and max_groups & (max_groups - 1):
        below = 1 << (max_groups.bit_length() - 1)
        raise DimensionError(
            "max_groups", max_groups, f"a power of two, for example {below} or {2 * below}"
        )
