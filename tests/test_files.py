"""Files that are either complete or not there."""

import os
import subprocess
import sys

import pytest

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent


def test_what_a_killed_writer_left_goes_when_the_file_is_complete(tmp_path):
    final = tmp_path / "text [1].de"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = tmp_path / f".{final.name}.{ended.pid}.part"
    kept = [
        tmp_path / f".{final.name}.{os.getppid()}.part",  # of a writer that still runs
        tmp_path / f".other.{ended.pid}.part",
        tmp_path / f".{final.name}.lock",
    ]
    for path in (left, *kept):
        path.write_text("half")
    with pytest.raises(ValueError, match="no"), complete_or_absent(final) as temporary:
        raise ValueError("no")
    assert left.exists()
    with complete_or_absent(final) as temporary:
        temporary.write_text("whole")
    assert final.read_text() == "whole"
    assert sorted(tmp_path.iterdir()) == sorted([final, *kept])


def test_what_is_no_file_is_not_replaced(tmp_path):
    """A device, say, if root names one as the output."""
    os.mkfifo(tmp_path / "pipe")
    with (
        pytest.raises(UserError, match="pipe is no regular file"),
        complete_or_absent(tmp_path / "pipe") as temporary,
    ):
        temporary.touch()
    assert (tmp_path / "pipe").is_fifo()
