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


@pytest.fixture
def data(toy, tmp_path):
    """The files that those tests expect, made of the toy task; some they need are still missing."""
    folder = tmp_path / "data"
    folder.mkdir()
    for side in ("src", "tgt"):
        shutil.copy(toy / f"train.{side}", folder / f"{side}-train.txt")
        shutil.copy(toy / f"valid.{side}", folder / f"{side}-val.txt")
        shutil.copy(toy / f"vocab.{side}", folder / f"vocab-train.{side}")
    corpora = {
        name: {"path_src": f"data/src-{split}.txt", "path_tgt": f"data/tgt-{split}.txt"}
        for name, split in (("corpus_1", "train"), ("valid", "val"))
    }
    settings = {"save_data": "data/sample", "data": corpora}
    (folder / "data.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path


def outcomes(report):
    """Result of each test, by its class and name."""
    return {
        (case.get("classname").split("onmt.tests.")[-1], case.get("name")): (
            case[0].tag if len(case) and case[0].tag != "system-out" else "passed"
        )
        for case in ElementTree.parse(report).iter("testcase")
    }


def test_opennmt_tests_have_the_same_results_with_and_without_the_plugin(data, stock_alone):
    without = stock_alone("pytest", TESTS, *SETTINGS, "--junitxml", "without.xml", cwd=data)
    with_plugin = subprocess.run(
        [sys.executable, "-m", "pytest", TESTS, *SETTINGS, "--junitxml", "with.xml"],
        cwd=data,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "onmt_define" not in without.stdout
    expected, found = outcomes(data / "without.xml"), outcomes(data / "with.xml")
    assert len(expected) > 100, without.stdout
    assert sum(result == "passed" for result in expected.values()) > 90, without.stdout
    assert found == expected, with_plugin.stdout
