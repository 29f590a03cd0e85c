"""Shared by all tests: no time limits in hypothesis, and the commands of this Python."""

import os
import subprocess

import pytest
from hypothesis import settings
from paths import BIN

# A loaded machine must not fail a test; speed belongs to the benchmarks.
settings.register_profile("no-deadline", deadline=None, max_examples=40)
settings.load_profile("no-deadline")


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
