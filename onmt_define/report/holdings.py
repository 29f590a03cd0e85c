"""Who held which GPU and when, from the table that the leases append to (logs/gpus.tsv)."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True)
class Holding:
    """One GPU in one lease; times are seconds since 1970.

    A job that was killed leaves no end. It is taken to be when the GPU, or the job's next try, was
    seen again, at the latest the last time in the table; `released` is false then.
    """

    job: str
    gpu: str
    start: float
    end: float
    released: bool


def read_holdings(path: Path) -> tuple[Holding, ...]:
    """All holdings, oldest first; none where there is no table. Broken lines are passed over."""
    rows = _rows(path)
    last = max((row["moment"] for row in rows), default=0.0)
    several_hosts = len({row["host"] for row in rows}) > 1
    found = []
    for index, row in enumerate(rows):
        if row["event"] != "taken":
            continue
        end, released = _end(row, rows[index + 1 :], last)
        for gpu, number in zip(row["gpus"], row["indices"], strict=True):
            name = f"GPU {number}" if number else gpu
            host = f"{row['host']} " if several_hosts else ""
            found.append(Holding(row["job"], f"{host}{name}", row["moment"], end, released))
    return tuple(found)


def _end(taken: dict, later: Sequence[dict], last: float) -> tuple[float, bool]:
    for row in later:
        same = all(row[key] == taken[key] for key in ("host", "process", "job"))
        if row["event"] == "released" and same:
            return row["moment"], True
    for row in later:
        same_gpu = row["host"] == taken["host"] and set(row["gpus"]) & set(taken["gpus"])
        if row["event"] == "taken" and (same_gpu or row["job"] == taken["job"]):
            return row["moment"], False
    return last, False


def _rows(path: Path) -> list[dict]:
    if not path.exists():
        return []
    rows = []
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            try:
                gpus, indices = row["gpus"].split(","), row["indices"].split(",")
                moment = datetime.fromisoformat(row["time"]).timestamp()
            except (KeyError, ValueError, AttributeError):
                continue
            if len(gpus) == len(indices):
                rows.append({**row, "gpus": gpus, "indices": indices, "moment": moment})
    return sorted(rows, key=lambda row: row["moment"])
