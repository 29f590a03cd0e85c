"""Builds OpenNMT-py models whose word look-up is a registered embedding type.

OpenNMT-py's `Embeddings` holds the word table, the tables of word features, the positional
encoding and the dropout. Only the word table is exchanged; all else stays its own code.
"""

import functools
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from onmt.utils.logging import logger
from torch import nn

from onmt_define.errors import UserError
from onmt_define.opennmt import lora
from onmt_define.opennmt.embedding_types import STANDARD
from onmt_define.opennmt.factorised_classifier import FactorisedClassifier
from onmt_define.opennmt.initial_size import set_initial_size
from onmt_define.opennmt.input_checks import words_of
from onmt_define.opennmt.registry import build_embedding
from onmt_define.opennmt.vocabulary_update import use_embeddings_from_checkpoint

# What OpenNMT-py raises where options, or weights and vocabularies, don't fit together.
MISFITS = (
    *(AssertionError, AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError),
)


def patch(module: ModuleType) -> None:
    """Give `onmt.model_builder` the registry; `embedding_type: standard` keeps its own path."""
    build_embeddings = module.build_embeddings
    build_decoder_with_embeddings = module.build_decoder_with_embeddings
    build_base_model = module.build_base_model
    build_model = module.build_model
    load_test_model = module.load_test_model
    use_standard_embeddings_from_checkpoint = module.use_embeddings_from_checkpoint

    @functools.wraps(build_embeddings)
    def registered_build_embeddings(opt: Namespace, vocabs: Any, for_encoder: bool = True) -> Any:
        embeddings = build_embeddings(opt, vocabs, for_encoder)
        if _is_registered(opt):
            _exchange_word_table(embeddings, opt, for_encoder)
        return embeddings

    @functools.wraps(build_decoder_with_embeddings)
    def registered_build_decoder(
        model_opt: Namespace, vocabs: Any, share_embeddings: bool = False, src_emb: Any = None
    ) -> Any:
        if not _is_registered(model_opt):
            return build_decoder_with_embeddings(model_opt, vocabs, share_embeddings, src_emb)
        tgt_emb = module.build_embeddings(model_opt, vocabs, for_encoder=False)
        if share_embeddings:
            _tie_parameters(src_emb.word_lut, tgt_emb.word_lut)
            if model_opt.freeze_word_vecs_dec:
                tgt_emb.word_lut.requires_grad_(False)
        return module.build_decoder(model_opt, tgt_emb), tgt_emb

    @functools.wraps(build_base_model)
    def registered_build_base_model(model_opt: Namespace, vocabs: Any) -> Any:
        if not (_is_registered(model_opt) and model_opt.share_decoder_embeddings):
            return build_base_model(model_opt, vocabs)
        untied = Namespace(**{**vars(model_opt), "share_decoder_embeddings": False})
        model = build_base_model(untied, vocabs)
        _tie_classifier(model, model_opt)
        return model

    @functools.wraps(use_standard_embeddings_from_checkpoint)
    def use_registered_embeddings_from_checkpoint(vocabs: Any, model: Any, checkpoint: Any) -> None:
        if not _is_registered(checkpoint["opt"]):
            return use_standard_embeddings_from_checkpoint(vocabs, model, checkpoint)
        _initialise(model)
        use_embeddings_from_checkpoint(vocabs, model, checkpoint)

    @functools.wraps(build_model)
    def reporting_build_model(
        model_opt: Namespace, opt: Namespace, vocabs: Any, checkpoint: Any, device_id: int
    ) -> Any:
        starts_new = checkpoint is None
        if model_opt.update_vocab and not starts_new and "model" not in checkpoint:
            raise UserError(
                f"update_vocab can't be combined with save_format safetensors ({opt.train_from})"
            )
        if not starts_new:
            _take_over(model_opt, opt, checkpoint["opt"])
        with _in_a_sentence("the model" if starts_new else opt.train_from):
            model = build_model(model_opt, opt, vocabs, checkpoint, device_id)
        lora.prepare_training(model, model_opt)
        if starts_new:
            if _is_registered(model_opt):
                _initialise(model)
            set_initial_size(_word_lookups(model), model_opt)
        logger.info(describe(model, model_opt))
        return model

    @functools.wraps(load_test_model)
    def load_fitting_model(opt: Namespace, device_id: int = 0, model_path: Any = None) -> Any:
        with _in_a_sentence(model_path or opt.models[0]):
            return load_test_model(opt, device_id, model_path)

    module.load_test_model = load_fitting_model  # type: ignore[attr-defined]
    module.build_embeddings = registered_build_embeddings  # type: ignore[attr-defined]
    module.build_decoder_with_embeddings = registered_build_decoder  # type: ignore[attr-defined]
    module.build_base_model = registered_build_base_model  # type: ignore[attr-defined]
    module.build_model = reporting_build_model  # type: ignore[attr-defined]
    module.use_embeddings_from_checkpoint = (  # type: ignore[attr-defined]
        use_registered_embeddings_from_checkpoint
    )


def _take_over(model_opt: Namespace, opt: Namespace, saved: Namespace) -> None:
    """What OpenNMT-py forgets when a training goes on.

    It disregards these options, taking the checkpoint's; and with override_opts the place in the
    text is lost.
    """
    model_opt.freeze_word_vecs_enc = opt.freeze_word_vecs_enc
    model_opt.freeze_word_vecs_dec = opt.freeze_word_vecs_dec
    if hasattr(saved, "packed_place"):
        model_opt.packed_place = saved.packed_place


@contextmanager
def _in_a_sentence(what: str) -> Iterator[None]:
    """Name the file, or the model, that can't be built in place of a traceback."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except MISFITS as error:
        raise UserError(f"{what} can't be built from its options: {words_of(error)}") from error


def _is_registered(opt: Namespace) -> bool:
    return getattr(opt, "embedding_type", STANDARD) != STANDARD


def _exchange_word_table(embeddings: Any, opt: Namespace, for_encoder: bool) -> None:
    table = embeddings.word_lut
    embedding = build_embedding(opt, table.num_embeddings, table.embedding_dim, table.padding_idx)
    embeddings.emb_luts[0] = embedding
    if opt.freeze_word_vecs_enc if for_encoder else opt.freeze_word_vecs_dec:
        embedding.requires_grad_(False)


def _tie_parameters(source: nn.Module, target: nn.Module) -> None:
    """Share every parameter; sharing the module itself would break OpenNMT-py's loading."""
    modules = dict(source.named_modules())
    for name, module in target.named_modules():
        for parameter_name in list(module._parameters):
            module._parameters[parameter_name] = modules[name]._parameters[parameter_name]


def _tie_classifier(model: Any, opt: Namespace) -> None:
    table = model.decoder.embeddings.word_lut.map_table.weight
    classifier = FactorisedClassifier(table, opt.dec_hid_size)
    if opt.copy_attn:
        model.generator.linear = classifier
    else:
        model.generator = classifier


def _word_lookups(model: Any) -> list[Any]:
    """The word tables of encoder and decoder, or what stands in their place."""
    sides = [getattr(model, "encoder", None), model.decoder]
    return [side.embeddings.word_lut for side in sides if side is not None]


def _initialise(model: Any) -> None:
    """Undo OpenNMT-py's general initialisation, which doesn't fit a deep input layer."""
    for lookup in _word_lookups(model):
        lookup.reset_parameters()
    for module in model.generator.modules():
        if isinstance(module, FactorisedClassifier):
            module.reset_parameters()


def describe(model: Any, opt: Namespace) -> str:
    """One line for the log: the embedding, its sizes and parameter counts."""
    lookups = _word_lookups(model)
    if hasattr(lookups[-1], "description"):
        sizes = lookups[-1].description()
    else:
        sizes = f"m={lookups[-1].embedding_dim}"
    counts = [sum(p.numel() for p in lookup.parameters()) for lookup in lookups]
    distinct = {id(p): p.numel() for lookup in lookups for p in lookup.parameters()}
    total = sum(parameter.numel() for parameter in model.parameters())
    return (
        f"embedding_type {getattr(opt, 'embedding_type', STANDARD)} {sizes}: "
        f"{' + '.join(f'{count:,}' for count in counts)} embedding parameters "
        f"({sum(distinct.values()):,} distinct), {total:,} in the model"
    )
