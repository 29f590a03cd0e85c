"""What a config of `onmt_server` and a request to it have to look like."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError
from onmt_define.opennmt.input_checks import words_of

CONFIG_KEYS = ("models_root", "models")
MODEL_KEYS = (
    *("id", "model", "models", "model_root", "opt", "load", "timeout", "on_timeout"),
    *("preprocess", "postprocess", "tokenizer", "custom_opt", "features"),
    *("ct2_model", "ct2_translator_args", "ct2_translate_batch_args"),
)
SENTENCE_KEYS = ("id", "src", "ref")


class RequestError(UserError):
    """A request that can't be answered; `status` is HTTP's."""

    status = 400


def check_config(config_file: str) -> None:
    """Raise `UserError` for a config of `onmt_server` that isn't one."""
    try:
        config = json.loads(Path(config_file).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{config_file} isn't JSON ({words_of(error)})") from error
    if not isinstance(config, dict) or not isinstance(config.get("models"), list):
        raise UserError(f"{config_file} has no list of models, expected models: [...]")
    _require_known(config_file, config, CONFIG_KEYS)
    for number, entry in enumerate(config["models"]):
        _check_entry(f"{config_file}, models[{number}]", entry, config)
    numbers = [entry["id"] for entry in config["models"] if "id" in entry]
    if twice := [number for number in numbers if numbers.count(number) > 1]:
        raise UserError(f"{config_file} has two models of id {twice[0]}, expected one")


def _check_entry(where: str, entry: Any, config: dict[str, Any]) -> None:
    if not isinstance(entry, dict) or not ("model" in entry or "models" in entry):
        raise UserError(f"{where} is {entry!r}, expected model or models in it")
    _require_known(where, entry, MODEL_KEYS)
    if not isinstance(entry.get("opt"), dict):
        raise UserError(f"{where}: opt is {entry.get('opt')!r}, expected options and their values")
    for key in ("id", "timeout"):
        if not isinstance(entry.get(key, 0), int):
            raise UserError(f"{where}: {key} is {entry[key]!r}, expected a whole number")
    paths = entry["models"] if "models" in entry else [entry["model"]]
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise UserError(f"{where}: models is {paths!r}, expected a list of files")
    root = Path(config.get("models_root", "./available_models"))
    for path in paths:
        if not (root / path).exists():
            raise UserError(f"{where}: there is no file {root / path}")


def check_request(inputs: Any) -> None:
    """Raise `RequestError` unless `inputs` are sentences for one model."""
    if not isinstance(inputs, list) or not inputs:
        raise RequestError(f'the request is {short(inputs)}, expected [{{"id": 0, "src": "..."}}]')
    for number, sentence in enumerate(inputs):
        where = f"sentence {number}"
        if not isinstance(sentence, dict):
            raise RequestError(f"{where} is {short(sentence)}, expected id and src in it")
        if not isinstance(sentence.get("src"), str):
            raise RequestError(f"{where}: src is {short(sentence.get('src'))}, expected text")
        if not isinstance(sentence.get("ref"), str | None):
            raise RequestError(f"{where}: ref is {short(sentence['ref'])}, expected text")
        if not isinstance(sentence.get("id", 0), int):
            raise RequestError(f"{where}: id is {short(sentence['id'])}, expected a whole number")
    if len({sentence["id"] for sentence in inputs if "id" in sentence}) > 1:
        raise RequestError("the sentences have several ids, expected one model for a request")


def refuse_other_keys(inputs: list[dict[str, Any]]) -> None:
    """Only functions of the user's own, which prepare the sentences, may know other keys."""
    for number, sentence in enumerate(inputs):
        if unknown := sentence.keys() - set(SENTENCE_KEYS):
            raise RequestError(
                f"sentence {number} has the unknown key {min(unknown)!r}, expected "
                f"{', '.join(SENTENCE_KEYS)}"
            )


def _require_known(where: str, found: dict[str, Any], known: Collection[str]) -> None:
    for key in found:
        if key not in known:
            raise UserError(f"{where} has the unknown key {key!r}, expected {', '.join(known)}")


def short(value: Any) -> str:
    """The beginning of what a request holds."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}..."
