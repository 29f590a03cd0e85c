"""GPU leases between real processes; nvidia-smi is a script that prints what the real one does."""

import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from itertools import pairwise

import pytest

from onmt_define.errors import UserError
from onmt_define.workflow.gpus import visible_gpus
from onmt_define.workflow.leases import lease

FOUR = "".join(f"GPU {index}: NVIDIA H100 (UUID: GPU-{index}aa-bb)\n" for index in range(4))
DIVIDED = """\
GPU 0: NVIDIA A100 (UUID: GPU-0aa-bb)
  MIG 3g.20gb     Device  0: (UUID: MIG-c0)
  MIG 3g.20gb     Device  1: (UUID: MIG-c1)
GPU 1: NVIDIA A100 (UUID: GPU-1aa-bb)
"""
JOB = """
import os, random, sys, time
from pathlib import Path
from onmt_define.workflow.leases import lease
wanted, seconds, log = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]

def write(event, gpus):
  line = f"{os.getpid()} {event} {time.monotonic()} {','.join(gpu.id for gpu in gpus)}\\n"
  with open(log, "a") as file:
    file.write(line)

with lease(wanted, f"job {os.getpid()}", Path(log).with_name("gpus.tsv")) as gpus:
    write("taken", gpus)
    time.sleep(seconds / 2)
    with lease(random.randint(1, wanted), "nested") as some:
        write("nested", some)
        time.sleep(seconds / 2)
    write("released", gpus)
"""
HOLD = """
import sys
from onmt_define.workflow.leases import lease
with lease(int(sys.argv[1]), sys.argv[2]) as gpus:
    print(*(gpu.id for gpu in gpus), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def nvidia_smi(monkeypatch, tmp_path):
    """Returns a function that sets what `nvidia-smi -L` prints."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ONMT_DEFINE_GPU_LEASES", str(tmp_path / "leases"))
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)

    def prints(listing):
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\ncat <<'.'\n{listing}.\n")
        (folder / "nvidia-smi").chmod(0o755)

    prints(FOUR)
    return prints


def ids():
    return [gpu.id for gpu in visible_gpus()]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ["GPU-0aa-bb", "GPU-1aa-bb", "GPU-2aa-bb", "GPU-3aa-bb"]),
        ("2,0", ["GPU-2aa-bb", "GPU-0aa-bb"]),
        ("GPU-2aa-bb, 2,GPU-2,1", ["GPU-2aa-bb", "GPU-1aa-bb"]),
        ("1,7,0", ["GPU-1aa-bb"]),
        ("0,-1,1", ["GPU-0aa-bb"]),
        ("", []),
        ("-1", []),
    ],
)
def test_every_spelling_of_a_card_is_its_uuid(nvidia_smi, monkeypatch, visible, expected):
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert ids() == expected


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ["MIG-c0", "MIG-c1", "GPU-1aa-bb"]),
        ("MIG-c1,1", ["MIG-c1", "GPU-1aa-bb"]),
        ("0,MIG-c0", ["MIG-c0"]),  # of a divided card CUDA itself sees the first part
    ],
)
def test_parts_of_a_divided_card_are_leased_apart(nvidia_smi, monkeypatch, visible, expected):
    nvidia_smi(DIVIDED)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert ids() == expected
    with lease(1, "one") as (gpu,):
        assert gpu.id == expected[0]


def test_without_nvidia_smi_the_ids_are_taken_as_they_are(nvidia_smi, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ids() == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert ids() == ["0", "1"]


def hold(wanted, job="holder"):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(wanted), job],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, process.stdout.readline().split()


def test_leases_are_disjoint_and_end_with_their_process(nvidia_smi, capsys, tmp_path):
    first, held = hold(2)
    log = tmp_path / "logs" / "gpus.tsv"
    with lease(2, "second", log) as others:
        assert not set(held) & {gpu.id for gpu in others}
        assert os.environ["CUDA_VISIBLE_DEVICES"] == ",".join(gpu.id for gpu in others)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    assert f"[second] holds GPU 2 ({others[0].id}), 3 ({others[1].id})" in capsys.readouterr().err
    header, taken, released = (line.split("\t") for line in log.read_text().splitlines())
    assert header == ["time", "event", "job", "indices", "gpus", "host", "process"]
    assert taken[1:3] == ["taken", "second"]
    assert released[1:5] == ["released", "second", "2,3", "GPU-2aa-bb,GPU-3aa-bb"]
    first.kill()
    first.communicate()
    with lease(4, "third"):
        pass


def test_a_wait_says_who_holds_what(nvidia_smi, run_command, tmp_path):
    first, _ = hold(3, "long training")
    second = subprocess.Popen(
        [sys.executable, "-c", HOLD, "2", "patient"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = second.stderr.readline()
    assert line.startswith("[patient] waits for 2 of 4 GPUs: GPU 0 (GPU-0aa-bb) is held by long")
    assert f"long training (process {first.pid} of " in line
    listing = run_command("onmt_define", "gpus", cwd=tmp_path).stdout.splitlines()
    assert listing[2].startswith("GPU 2 (GPU-2aa-bb), NVIDIA H100: held by long training (process")
    assert listing[3] == "GPU 3 (GPU-3aa-bb), NVIDIA H100: free"
    assert listing[4].startswith("waiting: patient, for 2, (process ")
    first.kill()
    second.kill()
    first.communicate()
    second.communicate()
    listing = run_command("onmt_define", "gpus", cwd=tmp_path).stdout
    assert listing.count(": free") == 4
    assert "waiting" not in listing


def test_another_spelling_does_not_give_a_held_card(nvidia_smi, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    first, held = hold(1)
    assert held == ["GPU-2aa-bb"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-2aa,1")
    with lease(1, "other") as (gpu,):
        assert gpu.id == "GPU-1aa-bb"
    first.kill()
    first.communicate()


def test_leases_in_a_lease_share_out_what_it_holds(nvidia_smi):
    with lease(3, "outer") as outer:
        one, ids_of_one = hold(1)
        two, ids_of_two = hold(2)
        assert sorted(ids_of_one + ids_of_two) == sorted(gpu.id for gpu in outer)
        with pytest.raises(UserError, match="asks for 4 GPUs, but 3 are visible"), lease(4, "more"):
            pass
        for process in (one, two):
            process.kill()
            process.communicate()
        with lease(3, "inner"), lease(3, "innermost") as inner:
            assert inner == outer


def test_who_waits_for_one_card_does_not_hold_up_others(nvidia_smi, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    first, _ = hold(1)
    waiting = subprocess.Popen(
        [sys.executable, "-c", HOLD, "1", "waiting"], stderr=subprocess.PIPE, text=True
    )
    assert "waits for 1 of 1" in waiting.stderr.readline()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2,3")
    with lease(3, "others"):
        pass
    for process in (first, waiting):
        process.kill()
        process.communicate()


def test_asking_for_more_gpus_than_there_are_fails_at_once(nvidia_smi):
    with pytest.raises(UserError, match="asks for 5 GPUs, but 4 are visible"), lease(5, "job"):
        pass


def start_job(wanted, seconds, log):
    return subprocess.Popen(
        [sys.executable, "-c", JOB, str(wanted), str(seconds), log],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.slow
def test_forty_jobs_under_fire_never_share_a_card(nvidia_smi, tmp_path):
    rng, log = random.Random(3), tmp_path / "log"
    started = time.monotonic()
    jobs, killed = {}, {}
    for _ in range(40):
        job = start_job(rng.choice([1, 2, 4]), rng.uniform(0.1, 0.6), log)
        jobs[job.pid] = job
    while running := [pid for pid, job in jobs.items() if job.poll() is None]:
        assert time.monotonic() - started < 60, "somebody starves"
        time.sleep(rng.uniform(0, 0.6))
        # Those that wait and those that hold cards are killed in turn.
        holding = [pid for pid in running if log.exists() and f"{pid} taken" in log.read_text()]
        victim = rng.choice(holding if holding and len(killed) % 2 else running)
        if len(killed) < 12 and jobs[victim].poll() is None:
            killed[victim] = time.monotonic()
            jobs[victim].kill()
            jobs[victim].wait()
    assert len(killed) == 12
    assert all(job.returncode == 0 for pid, job in jobs.items() if pid not in killed)

    taken, uses = {}, defaultdict(list)
    for line in log.read_text().splitlines():
        pid, event, moment, gpus = line.split()
        pid, moment, gpus = int(pid), float(moment), gpus.split(",")
        if event == "taken":
            taken[pid] = (moment, gpus)
        if event == "nested":
            assert set(gpus) <= set(taken[pid][1])
        if event == "released":
            start, gpus = taken.pop(pid)
            for gpu in gpus:
                uses[gpu].append((start, moment))
    for pid, (start, gpus) in taken.items():
        for gpu in gpus:
            uses[gpu].append((start, max(start, killed[pid])))
    assert len(uses) == 4
    for intervals in uses.values():
        intervals.sort()
        for (_, end), (start, _) in pairwise(intervals):
            assert end <= start, "a card was held twice at once"


@pytest.mark.slow
def test_a_job_for_all_cards_gets_them_while_small_ones_keep_coming(nvidia_smi, tmp_path):
    code = JOB.replace("with lease(w", "while True:\n  with lease(w").replace("\n    ", "\n      ")
    small = [
        subprocess.Popen(
            [sys.executable, "-c", code, "1", "0.4", tmp_path / "log"], stderr=subprocess.DEVNULL
        )
        for _ in range(10)
    ]
    try:
        while not (tmp_path / "log").exists():
            time.sleep(0.05)
        time.sleep(2)
        big = start_job(4, 0.1, tmp_path / "big")
        assert big.wait(40) == 0
        assert all(job.poll() is None for job in small)
    finally:
        for job in small:
            job.kill()
            job.wait()
