"""What OpenNMT-py 3.5.1 trains and can't use again, whatever the embedding: its repairs.

Its loader looks for a classifier's parameters under their last name alone, which fails for the
copy generator, whose parameters lie one level deeper. And it takes a second name of a parameter,
as the weight-normalised convolutions of the CNN have, for one that the model doesn't have.
When it translates, it doesn't prepare the batches that copying needs. And it averages in place, so
that a tensor which classifier and table share is averaged twice over. `with_score` takes the
scores for tensors, which those of a beam aren't any more, and `profile` records stacks whose names
torch can't read back.
"""

import functools
from argparse import Namespace
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch import nn

from onmt_define.errors import UserError
from onmt_define.opennmt import checkpoint_files, input_checks, safetensors_files, texts


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
    infer_file = module.InferenceEnginePY.infer_file
    build_iterator = module.build_dynamic_dataset_iter

    @functools.wraps(original)
    def __init__(self: Any, opt: Namespace) -> None:
        original(self, opt)
        opt.copy_attn = opt.world_size <= 1 and self.translator.copy_attn

    @functools.wraps(build_iterator)
    def build_dynamic_dataset_iter(opt: Namespace, *arguments: Any, **settings: Any) -> Any:
        copy = getattr(opt, "copy_attn", False)
        return build_iterator(opt, *arguments, copy=copy, **settings)

    @functools.wraps(infer_file)
    def checked_infer_file(self: Any) -> Any:
        if self.opt.world_size <= 1 and any(
            type(part).__name__ == "PositionalEncoding" for part in self.translator.model.modules()
        ):
            input_checks.require_positions(self.opt)
        return infer_file(self)

    module.InferenceEnginePY.__init__ = __init__
    module.InferenceEnginePY.infer_file = checked_infer_file
    module.build_dynamic_dataset_iter = build_dynamic_dataset_iter  # type: ignore[attr-defined]


def patch_positions(module: ModuleType) -> None:
    """Say in a sentence that a text is too long, which a transform may have made longer."""

    def too_long(message: str) -> UserError:
        tokens = message.split()[2]
        return UserError(
            f"a text has {tokens} tokens, expected at most {texts.MOST_POSITIONS}, as far as "
            "position_encoding goes; the transform filtertoolong leaves longer ones out of a "
            "training"
        )

    module.SequenceTooLongError = too_long  # type: ignore[attr-defined]


def patch_served_batches(module: ModuleType) -> None:
    """Let `onmt.translate.translation_server` prepare its batches for copying.

    A model that doesn't copy doesn't look at what is added.
    """
    from onmt.inputters.text_utils import _addcopykeys

    original = module.textbatch_to_tensor

    @functools.wraps(original)
    def textbatch_to_tensor(vocabs: Any, batch: list[Any], *arguments: Any, **settings: Any) -> Any:
        with_copy_keys = [_addcopykeys(vocabs, example) for example in batch]
        return original(vocabs, with_copy_keys, *arguments, **settings)

    module.textbatch_to_tensor = textbatch_to_tensor  # type: ignore[attr-defined]


def patch_translator(module: ModuleType) -> None:
    """Hand on what `onmt.translate.translator` computes in the form that it takes it in.

    Scores that are to be written have to be tensors, as have the alignments of no words, and the
    batch comes first in attentions.
    """
    original = module.Inference.report_results

    @functools.wraps(original)
    def report_results(self: Any, *arguments: Any, **settings: Any) -> dict[str, Any]:
        results = original(self, *arguments, **settings)
        if self.with_score:
            results["scores"] = [
                [torch.as_tensor(score, dtype=torch.float64) for score in scores]
                for scores in results["scores"]
            ]
        if self.report_align:
            lengths = results["batch"]["srclen"].tolist()
            results["alignment"] = [
                [torch.zeros(0, length) if each is None else each for each in alignments]
                for alignments, length in zip(results["alignment"], lengths, strict=True)
            ]
        return results

    decode = module.Inference._decode_and_generate

    @functools.wraps(decode)
    def _decode_and_generate(
        self: Any, decoder_in: torch.Tensor, *arguments: Any, **settings: Any
    ) -> tuple[torch.Tensor, Any]:
        log_probs, attention = decode(self, decoder_in, *arguments, **settings)
        if attention is not None and attention.size(0) != decoder_in.size(0):
            attention = attention.transpose(0, 1)  # of an RNN or CNN, the batch comes second
        return log_probs, attention

    module.BeamSearch = _with_lengths_of_sentences(module.BeamSearch)  # type: ignore[attr-defined]
    module.BeamSearchLM = _with_lengths_of_sentences(  # type: ignore[attr-defined]
        module.BeamSearchLM
    )
    module.Inference.report_results = report_results
    module.Inference._decode_and_generate = _decode_and_generate


def _with_lengths_of_sentences(search: type[Any]) -> type[Any]:
    """A beam search that cuts an attention to the length of its own sentence.

    OpenNMT-py's keeps a length for each beam, and looks one up by the number of the sentence.
    """

    class Search(search):  # type: ignore[misc]
        def beams_non_finished(self, *arguments: Any) -> bool:
            length_of_each_beam = self.src_len
            self.src_len = length_of_each_beam[:: self.beam_size]
            try:
                return super().beams_non_finished(*arguments)
            finally:
                self.src_len = length_of_each_beam

    return Search


def patch_translate(module: ModuleType) -> None:
    """Let `onmt_translate -profile` record what was called, but no stacks."""
    original = module.profile

    @functools.wraps(original)
    def profile(**settings: Any) -> Any:
        return original(**{**settings, "with_stack": False})

    module.profile = profile  # type: ignore[attr-defined]


# What changes a model's results without changing the shape of any weight.
SHAPELESS_OPTIONS = (
    *("embedding_type", "define_activation", "heads", "position_encoding", "copy_attn"),
    *("pos_ffn_activation_fn", "max_relative_positions", "model_task", "encoder_type"),
)


def require_one_training(paths: list[str]) -> None:
    """Raise `UserError` for checkpoints whose average would be no model, if of equal shapes."""
    first, *others = [checkpoint_files.load(path, lazily=True) for path in paths]
    for path, other in zip(paths[1:], others, strict=True):
        for option in SHAPELESS_OPTIONS:
            values = [getattr(each["opt"], option, None) for each in (first, other)]
            if values[0] != values[1]:
                raise UserError(
                    f"{paths[0]} has {option} {values[0]} and {path} {values[1]}, expected "
                    "checkpoints of one training"
                )
        names = first.get("model", {}).keys() ^ other.get("model", {}).keys()
        if names:
            raise UserError(
                f"{min(names)} is in one of {paths[0]} and {path} alone, expected checkpoints of "
                "one training"
            )


class TorchForAveraging(checkpoint_files.TorchForCheckpoints):
    """Stands for `torch` in `onmt.bin.average_models`: no two weights share memory."""

    @staticmethod
    def load(path: str, map_location: Any = None) -> dict[str, Any]:
        """A checkpoint with its weights, whose classifier has tensors of its own."""
        checkpoint = safetensors_files.load_whole(path)
        classifier = {name: weight.clone() for name, weight in checkpoint["generator"].items()}
        return {**checkpoint, "generator": classifier}


class TorchForRelease(checkpoint_files.TorchForCheckpoints):
    """Stands for `torch` in `onmt.bin.release_model`: the one file that it writes holds all."""

    @staticmethod
    def load(path: str, map_location: Any = None) -> dict[str, Any]:
        """A checkpoint with its weights."""
        return safetensors_files.load_whole(path)
