"""How much a job uses its GPUs: sampled by nvidia-smi while it runs, one table for each job."""

import csv
import os
import shutil
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

COLUMNS = ("time", "gpu", "utilisation_percent", "memory_mib", "power_w")
QUERY = "uuid,utilization.gpu,memory.used,power.draw"
SECONDS_BETWEEN_SAMPLES = 5
LONGEST_GAP = 4 * SECONDS_BETWEEN_SAMPLES
"""Seconds between two samples beyond which nothing is known: the job was not running."""


@contextmanager
def sampled(table: Path | None, anew: bool) -> Iterator[None]:
    """Append to `table`, during the block, what the GPUs in CUDA_VISIBLE_DEVICES do.

    Nothing happens without GPUs or nvidia-smi. `anew` deletes what is in the table, of a training
    that this one doesn't go on from.
    """
    if table is not None and anew:
        table.unlink(missing_ok=True)
    gpus, program = os.environ.get("CUDA_VISIBLE_DEVICES"), shutil.which("nvidia-smi")
    if table is None or not gpus or program is None:
        yield
        return
    ended = threading.Event()
    sampler = threading.Thread(target=_sample, args=(program, gpus, table, ended), daemon=True)
    sampler.start()
    try:
        yield
    finally:
        ended.set()
        sampler.join()


def _sample(program: str, gpus: str, table: Path, ended: threading.Event) -> None:
    command = [program, f"--id={gpus}", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    while True:
        samples = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
        # What has other fields is a message: nvidia-smi knows nothing of parts of a card.
        rows = [fields for fields in (line.split(", ") for line in samples) if len(fields) == 4]
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        if rows:
            _append(table, [[now, *fields] for fields in rows])
        if ended.wait(SECONDS_BETWEEN_SAMPLES):
            return


def _append(table: Path, rows: list[list[str]]) -> None:
    table.parent.mkdir(parents=True, exist_ok=True)
    new = not table.exists()
    with suppress(OSError), table.open("a", encoding="utf-8") as file:  # a full disk
        for row in [list(COLUMNS)] * new + rows:
            file.write("\t".join(row) + "\n")


def summarise(table: Path | None) -> dict[str, Any] | None:
    """Mean utilisation, peak memory of one GPU and energy of them all; None without samples.

    Returns:
        utilisation (percent), peak_memory_mib, kwh. What nvidia-smi doesn't know is None.
    """
    if table is None or not table.exists():
        return None
    with table.open(encoding="utf-8", newline="") as file:
        samples = list(csv.DictReader(file, delimiter="\t"))
    utilisation = _numbers(sample["utilisation_percent"] for sample in samples)
    memory = _numbers(sample["memory_mib"] for sample in samples)
    if not utilisation and not memory:
        return None
    joules = _energy(samples)
    return {
        "utilisation": round(sum(utilisation) / len(utilisation), 1) if utilisation else None,
        "peak_memory_mib": max(memory, default=None),
        "kwh": None if joules is None else round(joules / 3.6e6, 6),
    }


def _energy(samples: list[dict[str, str]]) -> float | None:
    """Joules: the power integrated over time, GPU by GPU, without the gaps between tries."""
    power: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for sample in samples:
        if watts := _numbers([sample["power_w"]]):
            moment = datetime.fromisoformat(sample["time"]).timestamp()
            power[sample["gpu"]].append((moment, watts[0]))
    if not power:
        return None
    return sum(
        (later - earlier) * (before + after) / 2
        for points in power.values()
        for (earlier, before), (later, after) in pairwise(points)
        if later - earlier <= LONGEST_GAP
    )


def _numbers(texts: Iterable[str]) -> list[float]:
    """Those that are numbers; nvidia-smi writes [N/A] for what a card doesn't measure."""
    return [float(text) for text in texts if text and text.replace(".", "", 1).isdigit()]
