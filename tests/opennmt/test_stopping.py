"""Signals, dead ranks and full disks in the middle of real trainings of the stock command."""

import os
import re
import resource
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from paths import BIN

from onmt_define.opennmt.checkpoint_files import load

pytestmark = pytest.mark.slow

SHIM = Path(__file__).parent / "two_cpu_workers"
TWO_RANKS = ("-world_size", "2", "-gpu_ranks", "0", "1", "-gpu_backend", "gloo")
ENDLESS = ("-train_steps", "1000000", "-save_checkpoint_steps", "1000000", "-report_every", "1")


class Training:
    """A running `onmt_train`, and what it has printed so far."""

    def __init__(self, toy, folder, *options, **settings):
        self.folder, self.log = folder, folder / "log"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        environment |= settings.pop("env", {})
        self.process = subprocess.Popen(
            [BIN / "onmt_train", "-config", "train.yaml", "-save_model", folder / "m", *options],
            cwd=toy,
            env=environment,
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
            **settings,
        )

    @property
    def output(self):
        return self.log.read_text()

    def steps(self):
        """The steps that were reported."""
        return [int(step) for step in re.findall(r"Step +(\d+)/", self.output)]

    def wait_for_step(self, step, seconds=150):
        end = time.monotonic() + seconds
        while step not in self.steps():
            assert self.process.poll() is None, self.output
            assert time.monotonic() < end, self.output
            time.sleep(0.05)

    def saved_step(self):
        (checkpoint,) = self.folder.glob("m_step_*.pt")
        step = int(checkpoint.stem.split("_")[-1])
        assert load(checkpoint)["optim"]["training_step"] == step + 1
        assert f"after step {step}, which is saved" in self.output
        assert self.steps()[-1] == step
        return step


@pytest.fixture
def start(toy, tmp_path):
    started = []

    def start(*options, **settings):
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Training(toy, folder, *ENDLESS, *options, **settings))
        return started[-1]

    yield start
    for training in started:
        if training.process.poll() is None:
            for child in psutil.Process(training.process.pid).children(recursive=True):
                child.kill()
            training.process.kill()
            training.process.wait()


def start_two_ranks(start, *options):
    search_path = f"{SHIM}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return start(*TWO_RANKS, *options, env={"PYTHONPATH": search_path})


def ranks_of(training):
    """The processes of the ranks, in their order."""
    children = psutil.Process(training.process.pid).children()
    ranks = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    assert len(ranks) == 2
    return sorted(ranks, key=lambda child: child.pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_the_current_step(start, number):
    training = start()
    training.wait_for_step(3)
    training.process.send_signal(number)
    assert training.process.wait(60) == 128 + number
    assert training.saved_step() >= 3
    assert "Traceback" not in training.output


def test_a_signal_to_all_processes_saves_too(start):
    """A cluster signals the processes that read the text as well."""
    training = start("-num_workers", "2")
    training.wait_for_step(3)
    children = psutil.Process(training.process.pid).children(recursive=True)
    assert len(children) >= 2
    for child in children:
        child.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    training.process.send_signal(signal.SIGTERM)
    assert training.process.wait(60) == 128 + signal.SIGTERM
    assert training.saved_step() >= 3
    assert "Traceback" not in training.output
    psutil.wait_procs(children, timeout=30)
    assert not any(child.is_running() for child in children)


@pytest.mark.parametrize("to", ["parent", "rank 1", "all"])
def test_a_signal_stops_all_ranks_after_the_same_step(start, to):
    training = start_two_ranks(start)
    training.wait_for_step(3)
    ranks = ranks_of(training)
    for process in {"parent": [training.process], "rank 1": ranks[1:]}.get(
        to, [*ranks, training.process]
    ):
        process.send_signal(signal.SIGUSR1)
    assert training.process.wait(60) == 128 + signal.SIGUSR1
    assert training.saved_step() >= 3
    assert "Traceback" not in training.output


def test_a_dead_rank_ends_its_whole_training_and_no_other(start):
    """Two trainings at once also have to use different ports."""
    first, second = start_two_ranks(start), start_two_ranks(start)
    for training in (first, second):
        training.wait_for_step(3)
    assert_a_dead_rank_ends(first, 0)
    assert second.process.poll() is None
    assert_a_dead_rank_ends(second, 1)


def assert_a_dead_rank_ends(training, rank):
    ranks = ranks_of(training)
    ranks[rank].kill()
    killed = time.monotonic()
    assert training.process.wait(60) == 128 + signal.SIGKILL
    assert time.monotonic() - killed < 15  # seconds; the machine may be busy
    assert f"error: rank {rank} was ended by SIGKILL, the others with it" in training.output
    assert not ranks[1 - rank].is_running()


def test_ranks_die_with_their_killed_parent(start):
    training = start_two_ranks(start)
    training.wait_for_step(1)
    ranks = ranks_of(training)
    training.process.kill()
    _, alive = psutil.wait_procs(ranks, timeout=15)
    assert not alive


def test_a_full_disk_keeps_the_checkpoint_before(start):
    training = start("-save_checkpoint_steps", "5", "-keep_checkpoint", "1")
    training.wait_for_step(6)
    (before,) = training.folder.glob("m_step_*.pt")
    # The shortest way to a write that finds no room: files may be no larger than this one.
    limit = before.stat().st_size // 2
    resource.prlimit(training.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    assert training.process.wait(60) == 2
    error = training.output.splitlines()[-1]
    assert "can't be written (File too large); what was saved before is whole" in error
    (kept,) = training.folder.glob("*.pt")
    assert load(kept)
    assert not list(training.folder.glob(".*.part"))
    assert "Traceback" not in training.output
