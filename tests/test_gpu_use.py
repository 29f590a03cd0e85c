"""The table of what a job does with its GPUs, and its summary."""

import time

import pytest

from onmt_define import gpu_use
from onmt_define.gpu_use import sampled, summarise


@pytest.fixture
def nvidia_smi(four_busy_gpus, monkeypatch):
    monkeypatch.setattr(gpu_use, "SECONDS_BETWEEN_SAMPLES", 0.02)


def lines(table):
    return [line.split("\t") for line in table.read_text().splitlines()]


def wait_for_samples(table, number):
    end = time.monotonic() + 20
    while not (table.exists() and len(lines(table)) > number):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_only_the_leased_gpus_are_sampled(nvidia_smi, monkeypatch, tmp_path):
    table = tmp_path / "benchmarks" / "job.gpu.tsv"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1aa-bb,GPU-2aa-bb")
    with sampled(table, anew=True):
        wait_for_samples(table, 8)
    rows = lines(table)
    assert rows[0] == ["time", "gpu", "utilisation_percent", "memory_mib", "power_w"]
    assert {row[1] for row in rows[1:]} == {"GPU-1aa-bb", "GPU-2aa-bb"}
    found = summarise(table)
    assert found["utilisation"] == pytest.approx(91.5, abs=0.2)
    assert found["peak_memory_mib"] == 3000
    seconds = time.monotonic()
    count = len(rows)
    with sampled(table, anew=False):  # the same training goes on
        wait_for_samples(table, count + 2)
    assert time.monotonic() - seconds < 10
    with sampled(table, anew=True):  # another one doesn't
        assert not table.exists() or len(lines(table)) < count


def test_energy_is_power_over_time_without_the_gap_between_tries(tmp_path):
    table = tmp_path / "job.gpu.tsv"
    rows = [("10:00:00", 100), ("10:00:05", 300), ("10:00:10", 300), ("12:00:00", 100)]
    rows += [("12:00:05", 100)]
    text = "time\tgpu\tutilisation_percent\tmemory_mib\tpower_w\n"
    for moment, watts in rows:
        for gpu in ("a", "b"):
            text += f"2026-01-01T{moment}.000+00:00\t{gpu}\t50\t10\t{watts}.0\n"
    table.write_text(text)
    joules = 2 * (5 * 200 + 5 * 300 + 5 * 100)
    assert summarise(table) == {
        "utilisation": 50.0,
        "peak_memory_mib": 10.0,
        "kwh": round(joules / 3.6e6, 6),
    }


def test_what_a_card_does_not_measure_is_unknown(nvidia_smi, monkeypatch, tmp_path):
    table = tmp_path / "job.gpu.tsv"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-3aa-bb")
    with sampled(table, anew=True):
        wait_for_samples(table, 2)
    assert summarise(table) == {"utilisation": 93.0, "peak_memory_mib": 4000.0, "kwh": None}


def test_without_a_gpu_there_is_no_table(nvidia_smi, monkeypatch, tmp_path):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    table = tmp_path / "job.gpu.tsv"
    with sampled(table, anew=True):
        time.sleep(0.2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("PATH", str(tmp_path))
    with sampled(table, anew=True), sampled(None, anew=True):
        time.sleep(0.2)
    assert not table.exists()
    assert summarise(table) is None
    assert summarise(None) is None
