"""Shared by all tests: no time limits in hypothesis, and the commands of this Python."""

import os
import shutil
import subprocess

import pytest
from hypothesis import settings
from paths import BIN, ROOT

# A loaded machine must not fail a test; speed belongs to the benchmarks.
settings.register_profile("no-deadline", deadline=None, max_examples=40)
settings.load_profile("no-deadline")

LONGEST_FIRST = (
    *("test_workflow.py", "test_killing.py", "test_profiles.py", "test_wmt14.py"),
    *("test_stopping.py", "test_lm_training.py"),
)


def pytest_collection_modifyitems(config, items):
    """Workers of pytest-xdist start with what takes longest, so that none is left alone with it."""
    if hasattr(config, "workerinput"):
        order = {name: place for place, name in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: order.get(item.path.name, len(order)))


@pytest.fixture(scope="session")
def run_command():
    """Run a console script of this Python's environment; returns the finished process."""

    def run(name, *arguments, cwd, env=None, timeout=300):
        return subprocess.run(
            [BIN / name, *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run


@pytest.fixture
def four_busy_gpus(monkeypatch, tmp_path):
    """A stand-in for nvidia-smi is found first (fake_nvidia_smi.py)."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    shutil.copy(ROOT / "tests" / "fake_nvidia_smi.py", program)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
