"""Builds OpenNMT-py's vocabulary files with its own command."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.opennmt.input_checks import require_text


def build_vocabulary(
    source: str | Path,
    target: str | Path,
    source_vocabulary: str | Path,
    target_vocabulary: str | Path,
    *,
    shared: bool,
) -> None:
    """Count the subwords of the training text; `shared` writes the sum to both files.

    Raises:
        UserError: for a text that isn't there or empty, or if onmt_build_vocab fails.
    """
    for option, path in (("source", source), ("target", target)):
        require_text(str(path), option)
    with tempfile.TemporaryDirectory() as folder:
        counted = {side: Path(folder) / f"vocabulary.{side}" for side in ("src", "tgt")}
        options = {
            "data": {"train": {"path_src": str(source), "path_tgt": str(target), "weight": 1}},
            "src_vocab": str(counted["src"]),
            "tgt_vocab": str(counted["tgt"]),
            "share_vocab": shared,
            "save_data": folder,
            "n_sample": -1,
        }
        config = Path(folder) / "config.yaml"
        config.write_text(yaml.safe_dump(options, allow_unicode=True), encoding="utf-8")
        command = [sys.executable, "-W", "ignore", "-m", "onmt_define.opennmt", "build_vocab"]
        status = subprocess.run([*command, "-config", str(config)]).returncode
        if status != 0:
            raise UserError(f"onmt_build_vocab on {source} and {target} ended with status {status}")
        for side, path in (("src", source_vocabulary), ("tgt", target_vocabulary)):
            with complete_or_absent(path) as temporary:
                shutil.copyfile(counted["src" if shared else side], temporary)
