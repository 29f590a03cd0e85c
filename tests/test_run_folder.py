"""One writer in a run's folder, on this machine and on others."""

import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from onmt_define import owner, run_folder
from onmt_define.errors import UserError
from onmt_define.run_folder import only_writer

HOLD = """
import sys, time
from pathlib import Path
from onmt_define import run_folder
run_folder.SECONDS_BETWEEN_BEATS = 0.05
with run_folder.only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process of this machine that holds the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(run_folder, "SECONDS_BETWEEN_BEATS", 0.05)
    monkeypatch.setattr(run_folder, "SECONDS_WITHOUT_A_BEAT", 0.5)


def elsewhere():
    return {**owner.this_process(), "host": "node7", "process": 4711, "user": "anna"}


def test_a_second_writer_is_told_who_the_first_is(holder, tmp_path):
    sentence = f"another process is training in .* \\(process {holder.pid} of .* on "
    with pytest.raises(UserError, match=sentence + socket.gethostname()), only_writer(tmp_path):
        pass


def test_a_killed_writer_is_followed_at_once(holder, tmp_path, capsys):
    holder.kill()
    holder.wait()
    started = time.monotonic()
    with only_writer(tmp_path):
        assert time.monotonic() - started < run_folder.SECONDS_WITHOUT_A_BEAT / 2
        assert owner.read(tmp_path / ".training.owner")["process"] == os.getpid()
    assert not capsys.readouterr().err  # nor does it say that it waits
    assert not (tmp_path / ".training.owner").exists()


def test_a_living_writer_on_another_machine_keeps_the_folder(quick, monkeypatch, tmp_path):
    monkeypatch.setattr(run_folder, "SECONDS_WITHOUT_A_BEAT", 30)  # a busy machine beats late
    path, ended = tmp_path / ".training.owner", threading.Event()
    owner.write(elsewhere(), path)

    def beat():
        while not ended.wait(0.1):
            os.utime(path)

    threading.Thread(target=beat, daemon=True).start()
    sentence = "process 4711 of anna on node7"
    with pytest.raises(UserError, match=sentence), only_writer(tmp_path):
        pass
    ended.set()


def test_a_dead_writer_on_another_machine_is_followed_after_a_while(quick, tmp_path, capsys):
    path = tmp_path / ".training.owner"
    owner.write(elsewhere(), path)
    future = time.time() + 3600  # the other machine's clock is fast
    os.utime(path, (future, future))
    started = time.monotonic()
    with only_writer(tmp_path):
        assert time.monotonic() - started > 0.4
        assert owner.read(path)["process"] == os.getpid()
    assert "whether process 4711 on node7 still trains" in capsys.readouterr().err


def test_a_writer_that_was_taken_for_dead_does_not_go_on(holder, tmp_path):
    owner.write(elsewhere(), tmp_path / ".training.owner")
    _, messages = holder.communicate(timeout=50)
    assert holder.returncode == 1
    assert b"was taken over by process 4711 of anna on node7" in messages
