"""What the packed training loop can train, and the patch that puts it in OpenNMT-py's place."""

import functools
from argparse import Namespace
from types import ModuleType
from typing import Any

from onmt_define.errors import UserError

PACKED = "packed"
VALIDATION = "valid"  # OpenNMT-py's name for the one corpus that isn't trained on

REQUIRED_OF_MODEL = {
    "model_task": "seq2seq",
    "encoder_type": "transformer",
    "decoder_type": "transformer",
    "generator_function": "softmax",
}
REQUIRED = {
    **REQUIRED_OF_MODEL,
    "model_dtype": "fp32",
    "batch_type": "tokens",
    "parallel_mode": "data_parallel",
}
"""Options that must have this value; `compute_dtype` says in what type the step is computed."""

REFUSED_OF_MODEL = (
    *("max_relative_positions", "copy_attn", "n_src_feats", "parallel_residual", "num_experts"),
    *("sliding_window", "num_kv"),
)
REFUSED = (
    *REFUSED_OF_MODEL,
    *("lambda_align", "lambda_coverage", "lora_layers", "lora_embedding", "quant_layers"),
    *("use_ckpting", "truncated_decoder", "zero_out_prompt_loss", "lm_prior_model"),
    "full_context_alignment",
)
"""Options that must be off."""


def is_packed(opt: Namespace) -> bool:
    """Whether these options ask for the packed loop; options of a program's own may not know it."""
    return getattr(opt, "training_loop", None) == PACKED


def refuse_unsupported(opt: Namespace) -> None:
    """Raise `UserError` for an option that the packed loop doesn't know."""
    _refuse_options(opt, REQUIRED, REFUSED, "")
    for name, corpus in opt.data.items():
        if name == VALIDATION:
            continue
        if corpus.get("transforms"):
            raise _cannot(
                f"transforms of data.{name} ({', '.join(corpus['transforms'])})",
                "apply them to the text beforehand",
            )
        if corpus.get("path_txt") or corpus.get("path_align"):
            raise _cannot(f"path_txt and path_align of data.{name}", "expected path_src, path_tgt")


def refuse_unsupported_model(model_opt: Namespace, path: str) -> None:
    """The same for the model in the checkpoint `path`, with which a training goes on."""
    _refuse_options(model_opt, REQUIRED_OF_MODEL, REFUSED_OF_MODEL, f" of {path}")


def _refuse_options(
    opt: Namespace, required: dict[str, str], refused: tuple[str, ...], whose: str
) -> None:
    for option, value in required.items():
        if getattr(opt, option, value) != value:
            raise _cannot(f"{option} {getattr(opt, option)}{whose}", f"expected {value}")
    for option in refused:
        if getattr(opt, option, None):
            raise _cannot(f"{option}{whose}", "leave it out")
    if opt.self_attn_type not in ("scaled-dot", "scaled-dot-flash"):
        raise _cannot(f"self_attn_type {opt.self_attn_type}{whose}", "expected scaled-dot")


def _cannot(what: str, instead: str) -> UserError:
    return UserError(
        f"{what} can't be combined with training_loop packed: {instead}, or use training_loop stock"
    )


def patch(module: ModuleType) -> None:
    """Let `onmt.train_single` build the packed loop where `training_loop` says so."""
    build_iterator = module.build_dynamic_dataset_iter
    build_trainer = module.build_trainer

    @functools.wraps(build_iterator)
    def build_dynamic_dataset_iter(
        opt: Namespace, transforms_cls: Any, vocabs: Any, **settings: Any
    ) -> Any:
        if not is_packed(opt):
            return build_iterator(opt, transforms_cls, vocabs, **settings)
        if settings["task"] == module.CorpusTask.TRAIN:
            from onmt_define.opennmt.packed_training.trainer import build_batches

            return build_batches(opt, vocabs, settings["offset"], settings["stride"])
        # Processes that only read the validation text would cost more time than they save.
        alone = Namespace(**{**vars(opt), "num_workers": 0})
        return build_iterator(alone, transforms_cls, vocabs, **settings)

    @functools.wraps(build_trainer)
    def build_packed_trainer(opt: Namespace, *arguments: Any, **settings: Any) -> Any:
        trainer = build_trainer(opt, *arguments, **settings)
        if is_packed(opt):
            from onmt_define.opennmt.packed_training.trainer import PackedTrainer

            trainer.__class__ = PackedTrainer
            trainer.use_packed_steps(opt)
        return trainer

    module.build_dynamic_dataset_iter = build_dynamic_dataset_iter  # type: ignore[attr-defined]
    module.build_trainer = build_packed_trainer  # type: ignore[attr-defined]
