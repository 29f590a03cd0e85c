"""`onmt_define doctor` in a sound environment and in broken ones."""

import os
import shutil
import subprocess
import venv
from pathlib import Path

import pytest
import torch
from paths import ROOT

from onmt_define.opennmt import doctor

pytestmark = pytest.mark.slow

MAIN = "from onmt_define.cli import main; main()"


def test_a_sound_environment(run_command, tmp_path):
    result = run_command("onmt_define", "doctor", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "note"}
    assert f"torch {torch.__version__}" in result.stdout
    assert "OpenNMT-py 3.5.1" in result.stdout
    assert result.stdout.count(" sees the plug-in") == 6
    assert " GPU" in lines[-1]


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A new environment with nothing in it, and a folder as `pip --target` would make it."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder / "environment")
    shutil.copytree(ROOT / "onmt_define", folder / "target" / "onmt_define")
    shutil.copy(ROOT / "onmt_define.pth", folder / "target")
    return folder


def run(bare, *search_path):
    return subprocess.run(
        [bare / "environment" / "bin" / "python", "-c", MAIN, "doctor"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, search_path)), "PATH": "/bin"},
        capture_output=True,
        text=True,
    )


def test_the_start_up_file_is_not_read_from_pythonpath(bare):
    result = run(bare, bare / "target", Path(torch.__file__).parents[1])
    assert result.returncode == 1, result.stderr
    assert "broken  Python doesn't load the plug-in when it starts" in result.stdout
    assert "pip --target" in result.stdout
    assert "broken  onmt_train isn't beside" in result.stdout


def test_nothing_else_installed(bare):
    result = run(bare, bare / "target")
    assert result.returncode == 1
    assert not result.stderr
    assert "broken  torch isn't installed: pip install 'torch>=2.6,<2.15'" in result.stdout
    assert "broken  OpenNMT-py isn't installed: pip install --no-deps OpenNMT-py==3.5.1" in (
        result.stdout
    )
    assert "broken  OpenNMT-py needs configargparse, flask, numpy" in result.stdout
    assert "note    snakemake isn't installed; only needed for: the workflow" in result.stdout


@pytest.mark.parametrize(
    ("package", "found", "state", "sentence"),
    [
        ("torch", "2.5.1+cu124", "broken", "torch 2.5.1+cu124, supported are 2.6 to 2.14"),
        ("torch", "2.15.0", "broken", "supported are 2.6 to 2.14"),
        ("torch", "2.14.1", "ok", "torch 2.14.1"),
        ("torch", "2.6.0", "ok", "torch 2.6.0"),
        ("OpenNMT-py", "3.4.0", "broken", "only 3.5.1 is supported: pip install --no-deps"),
        ("pyonmttok", None, "broken", "OpenNMT-py needs pyonmttok: pip install 'onmt_define[op"),
    ],
)
def test_versions(monkeypatch, package, found, state, sentence):
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: found if name == package else real(name))
    about = [*doctor._torch(), *doctor._opennmt()]
    assert any(line.state == state and sentence in line.text for line in about), about


def test_commands_in_a_path_with_a_space_are_followed(tmp_path):
    python = tmp_path / "a path" / "python"
    python.parent.mkdir()
    python.touch()
    script = tmp_path / "onmt_train"
    script.write_text(f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n")
    assert doctor._python_of(str(script)) == [str(python)]


@pytest.mark.parametrize("line", ["{}", "{} -s", "/usr/bin/env {}", "/no/such/python"])
def test_a_command_of_another_python(monkeypatch, bare, line):
    script = bare / "onmt_train"
    script.write_text(f"#!{line.format(bare / 'environment' / 'bin' / 'python')}\n")
    monkeypatch.setattr(doctor, "_script", lambda command: str(script))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    about = list(doctor._start_up())
    assert any("onmt_train doesn't see the plug-in" in found.text for found in about), about
