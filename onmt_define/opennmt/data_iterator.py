"""Lines that OpenNMT-py's iterator over texts would lose, in translation and in training.

It drops a blank source line, and one that a transform leaves out, from a text to be translated, so
that every later line of the output belongs to another one. In training it fails where no line of a
bucket is left, and in a validation where none is left at all.
"""

import functools
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from onmt.constants import DefaultTokens

from onmt_define.errors import UserError

UNTRANSLATED = "untranslated"
"""In place of a corpus's name, marks a line whose translation is the empty line."""
MERGING_TRANSFORM = "docify"  # makes one example of several lines


def patch(module: ModuleType) -> None:
    """Let `onmt.inputters.dynamic_iterator` keep every line of a text to be translated."""
    iterator_class = module.DynamicDatasetIter
    original = iterator_class._tuple_to_json_with_tokIDs
    original_batches = iterator_class.batch_iter
    process, load_on_device = module.process, module.OnDeviceDatasetIter.__iter__

    def examples_left(*arguments: Any, **settings: Any) -> list[dict[str, Any]]:
        return process(*arguments, **settings) or []

    @functools.wraps(original)
    def _tuple_to_json_with_tokIDs(self: Any, bucket: list[Any]) -> list[dict[str, Any]]:
        if MERGING_TRANSFORM in self.transforms:
            return original(self, bucket)
        if self.task == module.CorpusTask.TRAIN:
            whole = [item for item in bucket if _has_text(item[0])]
            return _some_examples(self, original(self, whole))
        if self.task != module.CorpusTask.INFER:
            return original(self, bucket)
        examples = original(self, [item for item in bucket if any(item[0]["src"])])
        kept = {example["cid_line_number"] for example in examples}
        lost = [item[0] for item in bucket if item[0]["cid_line_number"] not in kept]
        without_transforms = type(bucket[0][1])(None, [])
        stand_ins = [_stand_in(example, self.vocabs) for example in lost]
        marked = [(stand_in, without_transforms, UNTRANSLATED) for stand_in in stand_ins]
        examples += original(self, marked)
        return sorted(examples, key=lambda example: example["cid_line_number"])

    @functools.wraps(original_batches)
    def batch_iter(self: Any, data: list[Any], *arguments: Any, **settings: Any) -> Iterator[Any]:
        """Batches are the same as without such lines, which follow in batches of their own."""
        for marked in (False, True):
            part = [item for item in data if (item[0]["cid"] == UNTRANSLATED) == marked]
            yield from original_batches(self, part, *arguments, **settings)

    @functools.wraps(load_on_device)
    def __iter__(self: Any) -> Iterator[Any]:
        try:
            yield from load_on_device(self)
        except UserError as error:
            # A worker's error comes with its traceback.
            raise UserError(str(error).rsplit("UserError: ", 1)[-1].strip()) from error

    module.process = examples_left  # type: ignore[attr-defined]
    module.OnDeviceDatasetIter.__iter__ = __iter__
    iterator_class._tuple_to_json_with_tokIDs = _tuple_to_json_with_tokIDs
    iterator_class.batch_iter = batch_iter


def _has_text(example: dict[str, Any]) -> bool:
    """Whether neither side is blank; OpenNMT-py would train a blank target as an unknown word."""
    return any(example["src"]) and any(example["tgt"])


def _some_examples(iterator: Any, examples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The examples of a bucket; once every corpus was read through, there has to have been one."""
    iterator.found_examples = getattr(iterator, "found_examples", False) or bool(examples)
    if not iterator.found_examples and min(iterator.mixer._counts.values()) > 1:
        raise UserError(
            f"data: no pair of lines of {', '.join(map(str, iterator.corpora))} is left to train "
            "on, expected some that aren't blank and that the transforms keep"
        )
    return examples


def _stand_in(example: dict[str, Any], vocabs: Any) -> dict[str, Any]:
    """One unknown word in place of a line, which makes it through the model."""
    word = [DefaultTokens.UNK]
    stand_in = {
        **dict.fromkeys(("src", "src_original"), word),
        **dict.fromkeys(("tgt", "tgt_original"), None if example["tgt"] is None else word),
        "cid": UNTRANSLATED,
        "cid_line_number": example["cid_line_number"],
    }
    if "src_feats" in vocabs:
        stand_in["src_feats"] = [word for _ in vocabs["src_feats"]]
    return stand_in


def patch_trainer(module: ModuleType) -> None:
    """Let `onmt.trainer` say so if a validation had nothing to look at."""
    original = module.Trainer.validate

    @functools.wraps(original)
    def validate(self: Any, *arguments: Any, **settings: Any) -> Any:
        statistics = original(self, *arguments, **settings)
        if not statistics.n_words:
            raise UserError(
                "data.valid: no pair of lines is left to validate with, expected some that aren't "
                "blank and that the transforms keep"
            )
        return statistics

    module.Trainer.validate = validate


def patch_translations(module: ModuleType) -> None:
    """Let `onmt.translate.translation` make an empty line of what stands for one."""
    original = module.TranslationBuilder.from_batch

    @functools.wraps(original)
    def from_batch(self: Any, translation_batch: dict[str, Any]) -> list[Any]:
        translations = original(self, translation_batch)
        corpora = translation_batch["batch"].get("cid", [None] * len(translations))
        for translation, corpus in zip(translations, corpora, strict=True):
            if corpus == UNTRANSLATED:
                _make_empty(translation)
        return translations

    module.TranslationBuilder.from_batch = from_batch


def _make_empty(translation: Any) -> None:
    translation.srclen = 0
    translation.pred_sents = [[] for _ in translation.pred_sents]
    translation.pred_scores = [score - score for score in translation.pred_scores]
    translation.gold_score = translation.gold_score - translation.gold_score
    if translation.gold_sent is not None:
        translation.gold_sent = []
    if translation.word_aligns is not None:
        translation.word_aligns = [align[:0] for align in translation.word_aligns]
