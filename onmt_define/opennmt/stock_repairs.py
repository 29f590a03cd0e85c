"""What OpenNMT-py 3.5.1 trains and can't use again, whatever the embedding: four repairs.

Its loader looks for a classifier's parameters under their last name alone, which fails for the
copy generator, whose parameters lie one level deeper. And it takes a second name of a parameter,
as the weight-normalised convolutions of the CNN have, for one that the model doesn't have.
When it translates, it doesn't prepare the batches that copying needs. And it averages in place, so
that a tensor which classifier and table share is averaged twice over.
"""

import functools
from argparse import Namespace
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from torch import nn

from onmt_define.opennmt import checkpoint_files


def patch_loader(module: ModuleType) -> None:
    """Rename and leave out entries of a checkpoint before `onmt.models.model` looks at them."""
    original = module.BaseModel.load_state_dict

    @functools.wraps(original)
    def load_state_dict(
        self: nn.Module, checkpoint: dict[str, Any], *arguments: Any, **settings: Any
    ) -> None:
        weights, classifier = checkpoint["model"], checkpoint["generator"] or {}
        for name in [name for name in classifier if "." in name]:
            weights[f"generator.{name}"] = classifier.pop(name)
        for name in _second_names(self):
            weights.pop(name, None)
        original(self, checkpoint, *arguments, **settings)

    module.BaseModel.load_state_dict = load_state_dict


def _second_names(model: nn.Module) -> Iterator[str]:
    """Full names of parameters that their own module also holds under another name."""
    for prefix, module in model.named_modules():
        first = {name for name, _ in module.named_parameters(recurse=False)}
        for name, _ in module.named_parameters(recurse=False, remove_duplicate=False):
            if name not in first:
                yield f"{prefix}.{name}"


def patch_inference_engine(module: ModuleType) -> None:
    """Let `onmt.inference_engine` prepare batches for copying if its model copies."""
    original = module.InferenceEnginePY.__init__
    build_iterator = module.build_dynamic_dataset_iter

    @functools.wraps(original)
    def __init__(self: Any, opt: Namespace) -> None:
        original(self, opt)
        opt.copy_attn = opt.world_size <= 1 and self.translator.copy_attn

    @functools.wraps(build_iterator)
    def build_dynamic_dataset_iter(opt: Namespace, *arguments: Any, **settings: Any) -> Any:
        copy = getattr(opt, "copy_attn", False)
        return build_iterator(opt, *arguments, copy=copy, **settings)

    module.InferenceEnginePY.__init__ = __init__
    module.build_dynamic_dataset_iter = build_dynamic_dataset_iter  # type: ignore[attr-defined]


class TorchForAveraging(checkpoint_files.TorchForCheckpoints):
    """Stands for `torch` in `onmt.bin.average_models`: no two weights share memory."""

    @staticmethod
    def load(path: str, map_location: Any = None) -> dict[str, Any]:
        """A checkpoint whose classifier has tensors of its own."""
        checkpoint = checkpoint_files.load(path)
        classifier = {name: weight.clone() for name, weight in checkpoint["generator"].items()}
        return {**checkpoint, "generator": classifier}
