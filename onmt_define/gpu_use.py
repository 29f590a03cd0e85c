"""How much a job uses its GPUs: sampled by nvidia-smi while it runs, one table for each job."""

import csv
import functools
import os
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from onmt_define.stop_signals import die_with_parent

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
    process = _start_sampling() if table is not None else None
    if process is None:
        yield
        return
    assert table is not None
    writer = threading.Thread(target=_write, args=(process.stdout, table), daemon=True)
    writer.start()
    try:
        yield
    finally:
        process.terminate()
        process.wait()
        writer.join()


def _start_sampling() -> subprocess.Popen[str] | None:
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not gpus:
        return None
    try:
        return subprocess.Popen(
            [
                *("nvidia-smi", f"--id={gpus}", f"--query-gpu={QUERY}"),
                *("--format=csv,noheader,nounits", f"--loop={SECONDS_BETWEEN_SAMPLES}"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=functools.partial(die_with_parent, os.getpid()),
        )
    except OSError:
        return None


def _write(samples: Iterable[str], table: Path) -> None:
    for sample in samples:
        fields = [field.strip() for field in sample.split(",")]
        if len(fields) < len(COLUMNS) - 1:
            continue  # a message: nvidia-smi knows nothing of this part of a card
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        is_new = not table.exists()
        table.parent.mkdir(parents=True, exist_ok=True)
        with table.open("a", encoding="utf-8") as file:
            if is_new:
                file.write("\t".join(COLUMNS) + "\n")
            file.write("\t".join((now, *fields)) + "\n")


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
