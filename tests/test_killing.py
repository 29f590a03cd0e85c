"""A real training that is killed again and again, at random moments."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest
import yaml
from paths import ROOT

from onmt_define.opennmt.checkpoint_files import load

STEPS, INTERVAL, SEED = 800, 20, 6
KILLS, STOPS = 20, 10
TRAINING = {
    "encoder_type": "transformer",
    "decoder_type": "transformer",
    "position_encoding": True,
    "layers": 1,
    "hidden_size": 8,
    "word_vec_size": 8,
    "transformer_ff": 8,
    "heads": 1,
    "param_init": 0,
    "param_init_glorot": True,
    "optim": "adam",
    "learning_rate": 0.001,
    "batch_size": 4,
    "bucket_size": 64,
    "num_workers": 0,
    "train_steps": STEPS,
    "valid_steps": 10 * STEPS,
    "save_checkpoint_steps": INTERVAL,
    "keep_checkpoint": 2,
    "report_every": 1,
    "seed": 1,
}


@pytest.fixture
def command(tmp_path):
    """The command of a training whose target is its source."""
    words = [f"w{index}" for index in range(20)]
    (tmp_path / "vocabulary").write_text("".join(f"{word}\t1\n" for word in words))
    text = "".join(f"{word} {word}\n" for word in words * 10)
    (tmp_path / "text").write_text(text)
    sides = {"path_src": str(tmp_path / "text"), "path_tgt": str(tmp_path / "text")}
    config = {
        **TRAINING,
        "data": {"train": {**sides, "weight": 1}, "valid": sides},
        "src_vocab": str(tmp_path / "vocabulary"),
        "tgt_vocab": str(tmp_path / "vocabulary"),
        "save_model": str(tmp_path / "run" / "checkpoints" / "checkpoint"),
    }
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(config))
    return [
        *(sys.executable, ROOT / "scripts/train_translation.py", "--allow-cpu"),
        *("--config", tmp_path / "train.yaml", "--output", tmp_path / "run"),
        *("--corpus", "toy", "--log", tmp_path / "log"),
    ]


@pytest.fixture
def two_gpus(four_busy_gpus, monkeypatch, tmp_path):
    """Two simulated GPUs: nvidia-smi names them, and OpenNMT-py's ranks compute on the CPU."""
    shim = ROOT / "tests" / "opennmt" / "two_cpu_workers"
    monkeypatch.setenv("PYTHONPATH", str(shim), prepend=os.pathsep)
    monkeypatch.setenv("ONMT_DEFINE_GPU_LEASES", str(tmp_path / "leases"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)


def reported_steps(log):
    text = log.read_text() if log.exists() else ""
    return [int(step) for step in re.findall(r"Step +(\d+)/", text)]


def checkpoints(folder):
    """Steps of all files under a final name, each of which has to be whole."""
    steps = []
    for path in folder.glob("checkpoint_step_*.pt"):
        assert {"model", "optim"} <= load(path).keys()
        steps.append(int(path.stem.split("_")[-1]))
    return sorted(steps)


def wait_until(moment, process, log, rng):
    """A random moment, be it while the training starts or between its steps."""
    if moment == "start":
        time.sleep(rng.uniform(0, 3))
    while moment == "steps" and not reported_steps(log):
        time.sleep(0.01)
        assert process.poll() is None, process.stderr.read()
    if moment == "steps":
        time.sleep(rng.uniform(0, 0.5))


@pytest.mark.slow
def test_a_training_reaches_its_end_through_thirty_interruptions(command, tmp_path):
    rng, log, folder = random.Random(SEED), tmp_path / "log", tmp_path / "run" / "checkpoints"
    signals = [signal.SIGKILL] * KILLS + [signal.SIGTERM] * STOPS
    rng.shuffle(signals)
    reached, in_steps = 0, 0
    for number in signals:
        log.unlink(missing_ok=True)
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        wait_until(rng.choice(["start", "steps"]), process, log, rng)
        children = psutil.Process(process.pid).children(recursive=True)
        # What is killed may be the command or OpenNMT-py alone below it.
        target = rng.choice([process.pid, *(child.pid for child in children[:1])])
        os.kill(target, number)
        _, messages = process.communicate(timeout=120)
        psutil.wait_procs(children, timeout=15)
        assert not any(child.is_running() for child in children)
        assert process.returncode != 0, "the training ended before all interruptions"

        steps, saved = reported_steps(log), checkpoints(folder)
        newest = saved[-1] if saved else 0
        last = steps[-1] if steps else reached
        assert newest >= reached
        assert last - newest <= INTERVAL
        if number == signal.SIGTERM:
            assert process.returncode in (128 + number, -number), messages
            if steps:
                assert newest == last
        if steps:
            assert steps[0] == reached + 1
            in_steps += 1
        reached = newest
    assert in_steps >= 8
    subprocess.run(command, check=True)
    assert checkpoints(folder)[-1] == STEPS
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert record["steps"] == STEPS
    assert load(tmp_path / "run" / "model.pt")["model"]
    # Nothing is left but what belongs there.
    assert {path.name for path in folder.iterdir()} == {
        *("settings.json", "texts.json"),
        *(f"checkpoint_step_{step}.pt" for step in (STEPS, STEPS - INTERVAL)),
    }


@pytest.mark.slow
def test_a_training_on_two_gpus_goes_on_with_one(command, two_gpus, tmp_path):
    """As when Snakemake gives fewer GPUs at the second try: the effective batch stays."""
    config = yaml.safe_load((tmp_path / "train.yaml").read_text())
    config |= {"gpu_backend": "gloo", "train_steps": 60, "accum_count": [2]}
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(config))
    table, log = tmp_path / "gpu.tsv", tmp_path / "log"
    command += ["--gpu-log", table]
    process = subprocess.Popen([*command, "--gpus", "2"], stderr=subprocess.PIPE, text=True)
    while len(reported_steps(log)) < 5:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.terminate()
    _, messages = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM
    assert "holds GPU 1 (GPU-1aa-bb), 2 (GPU-2aa-bb)" in messages
    assert "on 2 GPUs: batch_size 4 on each, accum_count [1]" in messages
    (stopped_at,) = checkpoints(tmp_path / "run" / "checkpoints")
    assert stopped_at == reported_steps(log)[-1]

    again = subprocess.run([*command, "--gpus", "1"], capture_output=True, text=True, check=True)
    assert "on 1 GPU: batch_size 4 on each, accum_count [2]" in again.stderr
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert [attempt["from_step"] for attempt in record["tries"]] == [0, stopped_at]
    assert record["device"] == "1 x NVIDIA H100 80GB HBM3"
    # Sentences a step, as OpenNMT-py reports them from all ranks.
    assert set(re.findall(r"sents: +(\d+)", log.read_text())) == {"8"}
    assert record["gpu_use"]["peak_memory_mib"] == 3000
    events = [line.split("\t")[1:5] for line in (tmp_path / "gpus.tsv").read_text().splitlines()]
    name = f"{tmp_path.name} run"
    both, one = ["1,2", "GPU-1aa-bb,GPU-2aa-bb"], ["1", "GPU-1aa-bb"]
    assert events[1:] == [
        [event, name, *gpus] for gpus in (both, one) for event in ("taken", "released")
    ]
