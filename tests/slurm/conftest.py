"""One SLURM for all tests of a file."""

import pytest
from one_machine import one_machine, why_not


@pytest.fixture(scope="module")
def slurm():
    """A real SLURM on this machine with four simulated GPUs."""
    if reason := why_not():
        pytest.skip(f"no SLURM: {reason}")
    with one_machine() as machine:
        yield machine
