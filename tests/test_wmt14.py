"""config.yaml's data, in miniature, from a server on this machine; killed at random moments."""

import functools
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from miniature_wmt14.files import LINES, TEST_LINES, write_miniature
from paths import BIN, ROOT

pytestmark = pytest.mark.slow

KILLS, SEED = 20, 4
SPLITS = ("train", "valid", "newstest2014", "newstest2017")


REQUESTS: Counter[str] = Counter()


class Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        REQUESTS[self.path] += 1
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with config.yaml's own corpus and first run; every process takes the miniature."""
    write_miniature(tmp_path / "miniature")
    monkeypatch.setenv("MINIATURE_WMT14", str(tmp_path / "miniature"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "miniature_wmt14"), prepend=os.pathsep)
    monkeypatch.setenv("SACREBLEU", str(tmp_path / "sacrebleu"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    REQUESTS.clear()
    handler = functools.partial(Handler, directory=str(tmp_path / "miniature" / "www"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        config = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
        config["mirror"] = f"http://127.0.0.1:{server.server_port}"
        config["allow_cpu"] = True
        config["bpe"] = {"merges": 60, "vocabulary_threshold": 2}
        del config["translation"]["runs"][1:], config["language_models"], config["compression"]
        folder = tmp_path / "ein Ordner ü"
        folder.mkdir()
        (folder / "config.yaml").write_text(yaml.safe_dump(config), "utf-8")
        yield folder
        server.shutdown()
        thread.join()


def start(folder: Path) -> subprocess.Popen[str]:
    """The workflow up to the trainings, in a process group of its own.

    --nolock stands for the `--unlock` that a person gives once after a kill.
    """
    command = [BIN / "snakemake", "--snakefile", ROOT / "Snakefile", "--cores", "2", "--nolock"]
    with open(folder / "snakemake.log", "w") as log:
        return subprocess.Popen(
            [*command, "--omit-from", "train_translation"],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )


def finish(folder: Path) -> None:
    process = start(folder)
    try:
        assert process.wait(600) == 0, (folder / "snakemake.log").read_text("utf-8")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def results(folder: Path) -> dict[str, str]:
    """The hash of each final file; a counted second, a log or a lock isn't one."""
    files = [path for root in ("data", "results") for path in (folder / root).rglob("*")]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.is_file() and not {"logs", "benchmarks"} & set(path.parts)
        if path.suffix != ".lock"
    }


def clear(folder: Path) -> None:
    for name in ("data", "results", ".snakemake"):
        shutil.rmtree(folder / name, ignore_errors=True)
    shutil.rmtree(os.environ["SACREBLEU"], ignore_errors=True)


def test_miniature_from_a_server(project: Path) -> None:
    finish(project)
    provenance = json.loads((project / "results/paper/provenance.json").read_text())["wmt14"]
    parts = provenance["files"]["train.de"]["parts"]
    assert [part["lines"] for part in parts] == list(LINES.values())
    for part, name in zip(parts, ("europarl-v7", "commoncrawl", "nc-v9"), strict=True):
        assert f"/training-parallel-{name}.tgz: " in part["from"]
        assert len(part["sha256"]) == 64
    for split in SPLITS:
        facts = provenance["files"][f"{split}.en"]
        assert facts["lines"] == (sum(LINES.values()) if split == "train" else TEST_LINES)
        raw = project / "data" / "wmt14" / "raw" / f"{split}.en"
        assert hashlib.sha256(raw.read_bytes()).hexdigest() == facts["sha256"]
    assert not list((project / "data").rglob("*.tgz"))
    assert not list((project / "data").rglob("*cs-en*"))


def test_two_at_once_fetch_each_archive_once(project: Path) -> None:
    config = yaml.safe_load((project / "config.yaml").read_text("utf-8"))
    command = [sys.executable, ROOT / "scripts" / "fetch_corpus.py", "--name", "wmt14"]
    command += ["--output", project / "raw", "--mirror", config["mirror"]]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    printed = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert printed[0] == printed[1]
    archives = {path: n for path, n in REQUESTS.items() if "training-parallel" in path}
    assert len(archives) >= 3
    assert set(archives.values()) == {1}


def test_killed_at_any_moment_it_ends_with_the_same_files(project: Path) -> None:
    config = yaml.safe_load((project / "config.yaml").read_text("utf-8"))
    config["test_sets"] = ["newstest2014"]
    (project / "config.yaml").write_text(yaml.safe_dump(config), "utf-8")
    finish(project)
    expected = results(project)
    clear(project)
    rng, interrupted = random.Random(SEED), 0
    for _ in range(KILLS):
        process = start(project)
        if rng.random() < 0.8:
            wait_for_a_job(project, process)
            time.sleep(rng.uniform(0, 3))
        else:
            time.sleep(rng.uniform(0, 2))
        # All at once, as when the machine fails, or Snakemake alone, whose jobs then go on.
        kill = rng.choice([os.killpg, os.kill])
        if process.poll() is None:
            kill(process.pid, signal.SIGKILL)
            interrupted += 1
        process.wait()
        if results(project) == expected:
            clear(project)
    assert interrupted >= KILLS / 2
    finish(project)
    assert results(project) == expected


def wait_for_a_job(folder: Path, process: subprocess.Popen[str]) -> None:
    while process.poll() is None and "rule " not in (folder / "snakemake.log").read_text("utf-8"):
        time.sleep(0.02)
