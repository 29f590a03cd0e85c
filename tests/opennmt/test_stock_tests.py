"""OpenNMT-py's own tests, which its wheel contains, don't notice the plug-in."""

import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import onmt.tests
import pytest
import yaml

pytestmark = pytest.mark.slow

TESTS = Path(onmt.tests.__path__[0])
SETTINGS = ("-q", "-p", "no:cacheprovider", "-W", "ignore")


def make_data(toy, folder):
    """The files that those tests expect, made of the toy task; some they need are still missing."""
    data = folder / "data"
    data.mkdir(parents=True)
    for side in ("src", "tgt"):
        shutil.copy(toy / f"train.{side}", data / f"{side}-train.txt")
        shutil.copy(toy / f"valid.{side}", data / f"{side}-val.txt")
        shutil.copy(toy / f"vocab.{side}", data / f"vocab-train.{side}")
    corpora = {
        name: {"path_src": f"data/src-{split}.txt", "path_tgt": f"data/tgt-{split}.txt"}
        for name, split in (("corpus_1", "train"), ("valid", "val"))
    }
    settings = {"save_data": "data/sample", "data": corpora}
    (data / "data.yaml").write_text(yaml.safe_dump(settings))
    return folder


def outcomes(report):
    """Result of each test, by its class and name."""
    return {
        (case.get("classname").split("onmt.tests.")[-1], case.get("name")): (
            case[0].tag if len(case) and case[0].tag != "system-out" else "passed"
        )
        for case in ElementTree.parse(report).iter("testcase")
    }


def test_opennmt_tests_have_the_same_results_with_and_without_the_plugin(
    toy, tmp_path, stock_alone, monkeypatch
):
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)  # meant for these tests here
    arguments = (TESTS, *SETTINGS, "--junitxml", "report.xml")
    with_plugin = subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=make_data(toy, tmp_path / "with"),
        stdout=subprocess.PIPE,
        text=True,
    )
    without = stock_alone("pytest", *arguments, cwd=make_data(toy, tmp_path / "without"))
    printed, _ = with_plugin.communicate(timeout=300)
    assert "onmt_define" not in without.stdout
    expected = outcomes(tmp_path / "without" / "report.xml")
    assert len(expected) > 100, without.stdout
    assert sum(result == "passed" for result in expected.values()) > 90, without.stdout
    assert outcomes(tmp_path / "with" / "report.xml") == expected, printed
