"""A training goes on only with the settings and the texts that it was begun with."""

import json
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.settings_difference import first_difference
from onmt_define.workflow.data_hashes import hashes, write_hashes
from onmt_define.workflow.opennmt_checkpoints import opennmt_checkpoints

CHANGEABLE_SETTINGS = {
    *("train_steps", "valid_steps", "save_checkpoint_steps", "keep_checkpoint", "report_every"),
    *("valid_batch_size", "num_workers", "prefetch_factor", "bucket_size"),
    *("save_model", "packed_data"),
}
"""What may be changed before going on: it is about where, how long and how often."""


def begin(output: Path, config: dict[str, Any]) -> None:
    """Note what the training in the folder `output` is begun with."""
    write_hashes(_texts(config), _path_of_hashes(output))
    with complete_or_absent(_path(output)) as temporary:
        temporary.write_text(json.dumps(config, indent=1), encoding="utf-8")


def check_same_training(output: Path, config: dict[str, Any]) -> None:
    """Raise `UserError`, showing the difference, if it was begun with other settings.

    So too if it has gone beyond `train_steps`: no model of fewer steps can come of it.
    """
    otherwise = _otherwise(output)
    step, steps = newest_step(output), config["train_steps"]
    if step > steps:
        raise UserError(
            f"the training in {output} is at step {step}, but the run says train_steps: {steps}; "
            f"expected at least {step}, {otherwise}"
        )
    path = _path(output)
    if not path.exists():
        return  # begun before this was noted
    before = json.loads(path.read_text(encoding="utf-8"))
    if difference := first_difference(before, config, CHANGEABLE_SETTINGS):
        key, old, new = difference
        raise UserError(
            f"the training in {output} was begun with {key}: {old}, but the run says {new}; "
            f"expected the same, {otherwise}"
        )


def check_same_texts(output: Path, config: dict[str, Any]) -> None:
    """Raise `UserError` if a text or a vocabulary has changed since the training was begun."""
    path = _path_of_hashes(output)
    if not path.exists():
        return  # begun before this was noted
    before = json.loads(path.read_text(encoding="utf-8"))
    for text, found in hashes(_texts(config)).items():
        if before.get(text, found) != found:
            raise UserError(
                f"{text} isn't what the training in {output} was begun with; expected the same "
                f"text, {_otherwise(output)}"
            )


def newest_step(output: Path) -> int:
    """Step of the newest checkpoint in a translation run's folder, 0 without any."""
    return max(
        (step for step, _ in opennmt_checkpoints(output / "checkpoints").by_step()), default=0
    )


def _otherwise(output: Path) -> str:
    folder = output / "checkpoints"
    return f"another name for the run, or no folder {folder}, for a training from the start"


def _texts(config: dict[str, Any]) -> list[str]:
    """The files that decide what a model learns; OpenNMT-py itself names one that isn't there."""
    corpora = config.get("data", {}).values()
    named = [corpus.get(side) for corpus in corpora for side in ("path_src", "path_tgt")]
    named += [config.get("src_vocab"), config.get("tgt_vocab")]
    return [path for path in named if path and Path(path).is_file()]


def _path(output: Path) -> Path:
    return output / "checkpoints" / "settings.json"


def _path_of_hashes(output: Path) -> Path:
    return output / "checkpoints" / "texts.json"
