"""One resolved OpenNMT-py configuration for each training, checked before anything starts."""

import math
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

import onmt_define.opennmt.startup  # noqa: F401  before OpenNMT-py, also outside site-packages
from onmt_define.errors import UserError

SET_BY_THE_WORKFLOW = (
    "config",
    "data",
    "gpu_ranks",
    "log_file",
    "save_model",
    "seed",
    "src_vocab",
    "tgt_vocab",
    "train_from",
    "world_size",
)


def resolve_training(
    options: dict[str, Any],
    *,
    bpe_dir: str | Path,
    output_dir: str | Path,
    source_language: str,
    target_language: str,
    seed: int,
) -> dict[str, Any]:
    """Complete a run's options to a configuration for `onmt_train` on one GPU or the CPU."""
    bpe, sharing = Path(bpe_dir), "shared" if options.get("share_vocab") else "separate"
    vocabulary = {
        side: str(bpe / f"vocabulary-{sharing}.{language}")
        for side, language in (("src", source_language), ("tgt", target_language))
    }
    data: dict[str, dict[str, Any]] = {
        split: {
            "path_src": str(bpe / f"{split}.{source_language}"),
            "path_tgt": str(bpe / f"{split}.{target_language}"),
            "transforms": [],
        }
        for split in ("train", "valid")
    }
    data["train"]["weight"] = 1
    return {
        "data": data,
        "src_vocab": vocabulary["src"],
        "tgt_vocab": vocabulary["tgt"],
        "save_model": str(Path(output_dir) / "checkpoints" / "checkpoint"),
        **options,
        "seed": seed,
    }


def check_training_options(options: dict[str, Any], where: str) -> None:
    """Let OpenNMT-py's own parser and the plug-in judge a run's options.

    Raises:
        UserError: for an unknown option, a bad value or a combination that can't work.
    """
    for option in SET_BY_THE_WORKFLOW:
        if option in options:
            raise UserError(f"{where}: the option {option!r} is set by the workflow, leave it out")
    if options.get("train_steps") is None:
        raise UserError(f"{where}: train_steps is missing, expected the number of steps to train")
    parser = _command("train")._get_parser()
    opt = _parse(parser, {**options, "data": {}, "src_vocab": "-"}, where)
    try:
        parser.validate_train_opts(opt)
        parser.update_model_opts(opt)
        parser.validate_model_opts(opt)
    except (AssertionError, UserError, ValueError) as error:
        raise UserError(f"{where}: {error}") from error
    _check_heads(opt, where)


def _check_heads(opt: Any, where: str) -> None:
    """OpenNMT-py itself finds this out only when the model is built, after all downloads."""
    if not any(kind.startswith("transformer") for kind in (opt.encoder_type, opt.decoder_type)):
        return
    if opt.enc_hid_size % opt.heads:
        raise UserError(
            f"{where}: heads is {opt.heads}, expected a divisor of hidden_size {opt.enc_hid_size}"
        )


def check_decoding_options(options: dict[str, Any], where: str) -> None:
    """Let OpenNMT-py's own parser judge the options for translation."""
    _parse(_command("translate")._get_parser(), {**options, "model": "-", "src": "-"}, where)


def _command(name: str) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # OpenNMT-py uses names that torch deprecates
        return import_module(f"onmt.bin.{name}")


def _parse(parser: Any, options: dict[str, Any], where: str) -> Any:
    def exit(status: int, message: str) -> None:
        sentence = message.split(" error: ", 1)[1].split(";", 1)[0]
        raise UserError(f"{where}: {sentence.replace(' in method arg', '')}")

    parser.exit = exit
    contents = yaml.safe_dump(options, allow_unicode=True, sort_keys=False)
    opt, _ = parser.parse_known_args(args=[], config_file_contents=contents)
    return opt


def spread_over_gpus(config: dict[str, Any], gpus: int) -> tuple[int, list[int]]:
    """Batch size per GPU and accumulation for `gpus` GPUs at an unchanged effective batch.

    The configuration is written for one GPU. Where its accumulation isn't a multiple of the number
    of GPUs, the batch of each GPU becomes smaller instead.

    Returns:
        batch_size (in the configuration's unit, for each GPU) and accum_count (one entry for each
        entry of the configuration's).
    """
    batch_size, counts = config.get("batch_size", 64), config.get("accum_count", [1])
    counts = counts if isinstance(counts, list) else [counts]
    scaled = [math.ceil(count / gpus) for count in counts]
    fraction = counts[0] / (gpus * scaled[0])
    return max(1, round(batch_size * fraction)), scaled
