"""The built wheel, alone in a new environment beside OpenNMT-py."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import torch
from paths import ROOT

pytestmark = pytest.mark.slow


def test_wheel_works_beside_opennmt_without_the_workflow(tmp_path):
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, ROOT]
    built = subprocess.run(build, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    wheel = next(tmp_path.glob("*.whl"))
    names = zipfile.ZipFile(wheel).namelist()
    assert "onmt_define.pth" in names
    assert "onmt_define/workflow/config.schema.yaml" in names
    assert "onmt_define/paper/table.schema.yaml" in names
    assert "onmt_define/paper/tables/table1a.yaml" in names
    assert "onmt_define/report/templates/report.html.j2" in names

    environment = tmp_path / "environment"
    venv.create(environment)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python]
    installed = subprocess.run(
        [*pip, "install", "--no-deps", "--no-index", wheel], capture_output=True, text=True
    )
    assert installed.returncode == 0, installed.stderr
    # torch and OpenNMT-py are borrowed from this Python; its start-up files don't come along.
    site = next((environment / "lib").glob("python*")) / "site-packages"
    (site / "zz_borrowed.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    result = subprocess.run(
        [python, "-c", "from onmt.bin.train import main; main()", "--help"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert "--embedding_type" in result.stdout, result.stderr
    where = subprocess.run(
        [python, "-c", "import onmt_define; print(onmt_define.__file__)"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert where.stdout.strip().startswith(str(site))
