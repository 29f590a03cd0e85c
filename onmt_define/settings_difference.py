"""Where the settings of a run differ from those that it was begun with."""

from collections.abc import Collection
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """A key, nested ones with dots, and its two values; None where there is none."""

    key: str
    before: Any
    now: Any


def first_difference(
    before: dict[str, Any], now: dict[str, Any], changeable: Collection[str]
) -> Difference | None:
    """The first difference by name, but for keys of the first level that may change."""
    before, now = _flat(before), _flat(now)
    for key in sorted(before.keys() | now.keys()):
        if key.split(".")[0] not in changeable and before.get(key) != now.get(key):
            return Difference(key, before.get(key), now.get(key))
    return None


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return flat
