"""Commands whose output nobody reads to its end."""

import os
import signal
import subprocess

import pytest
from paths import BIN


@pytest.fixture
def run_unread():
    """Run a command of `onmt_define` whose reader is gone: (exit status, what it complained)."""

    def run(*arguments, both=False, unbuffered=False):
        reader, writer = os.pipe()
        os.close(reader)
        try:
            result = subprocess.run(
                [BIN / "onmt_define", *arguments],
                stdout=writer,
                stderr=writer if both else subprocess.PIPE,
                env={**os.environ, "PYTHONUNBUFFERED": "1" if unbuffered else ""},
                timeout=100,
            )
        finally:
            os.close(writer)
        return result.returncode, result.stderr

    return run


@pytest.mark.parametrize("arguments", [["--help"], ["gpus"], ["params"]], ids=" ".join)
@pytest.mark.parametrize(
    "settings", [{}, {"unbuffered": True}, {"both": True}], ids=lambda settings: " ".join(settings)
)
def test_an_unread_command_ends_quietly(run_unread, arguments, settings):
    status, complaint = run_unread(*arguments, **settings)
    assert not complaint
    # argparse itself overlooks that its help can't be printed.
    assert status == 128 + signal.SIGPIPE or (status == 0 and "--help" in arguments)


def test_a_mistake_is_said_though_nobody_reads_the_output(run_unread):
    status, complaint = run_unread("compress", "nowhere.pt", "-o", "x.pt")
    assert status == 2
    assert b"error: " in complaint


def test_a_command_without_an_output_works():
    """As `onmt_define --help >&-` in a shell."""
    result = subprocess.run(
        ["sh", "-c", '"$0" params >&-', BIN / "onmt_define"], capture_output=True, text=True
    )
    assert result.returncode == 0
    assert not result.stderr
