"""A training goes on only with the settings that it was begun with."""

import json
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.settings_difference import first_difference
from onmt_define.workflow.opennmt_checkpoints import opennmt_checkpoints

CHANGEABLE_SETTINGS = {
    *("train_steps", "valid_steps", "save_checkpoint_steps", "keep_checkpoint", "report_every"),
    *("valid_batch_size", "num_workers", "prefetch_factor", "bucket_size"),
    *("save_model", "packed_data"),
}
"""What may be changed before going on: it is about where, how long and how often."""


def begin(output: Path, config: dict[str, Any]) -> None:
    """Note what the training in the folder `output` is begun with."""
    with complete_or_absent(_path(output)) as temporary:
        temporary.write_text(json.dumps(config, indent=1), encoding="utf-8")


def check_same_training(output: Path, config: dict[str, Any]) -> None:
    """Raise `UserError`, showing the difference, if it was begun with other settings.

    So too if it has gone beyond `train_steps`: no model of fewer steps can come of it.
    """
    otherwise = (
        f"another name for the run, or no folder {output / 'checkpoints'}, for a training from the "
        "start"
    )
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


def newest_step(output: Path) -> int:
    """Step of the newest checkpoint in a translation run's folder, 0 without any."""
    return max(
        (step for step, _ in opennmt_checkpoints(output / "checkpoints").by_step()), default=0
    )


def _path(output: Path) -> Path:
    return output / "checkpoints" / "settings.json"
