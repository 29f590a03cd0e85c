"""What a record says of the programs behind it."""

import re
import shutil
import subprocess

import pytest

from onmt_define import environment
from onmt_define.workflow.data_hashes import write_hashes


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_is_that_of_the_packages_own_repository(tmp_path, monkeypatch):
    package = tmp_path / "onmt_define"
    package.mkdir()
    (package / "environment.py").write_text("")
    monkeypatch.setattr(environment, "__file__", str(package / "environment.py"))
    assert environment._commit() is None

    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True)

    git("init", "-q")
    assert environment._commit() is None  # as in a virtual environment inside a repository
    git("add", ".")
    git("commit", "-qm", "first")
    commit = environment._commit()
    assert re.fullmatch("[0-9a-f]{40,64}", commit)
    (package / "environment.py").write_text("changed = True")
    assert environment._commit() == f"{commit}-dirty"


def test_hashes_of_data(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    write_hashes([tmp_path / "a", tmp_path / "a"], tmp_path / "hashes.json")
    assert '"bytes": 3' in (tmp_path / "hashes.json").read_text()
    assert "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" in (
        (tmp_path / "hashes.json").read_text()
    )
