"""The workflow's configuration: checked, completed with defaults, and turned into plain facts."""

import hashlib
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError
from onmt_define.lm.paper_runs import paper_run
from onmt_define.paper.published import find_row
from onmt_define.schema import load_yaml, validate
from onmt_define.workflow.sources import raw_splits

SCHEMA = Path(__file__).with_name("config.schema.yaml")
CORPUS_KINDS = ("download", "generate", "files")


def load_config(path: str | Path) -> dict[str, Any]:
    """Read, check and complete a configuration file."""
    return complete_config(load_yaml(path), str(path))


def complete_config(config: Any, where: str) -> dict[str, Any]:
    """Check a configuration and fill in the schema's defaults.

    Raises:
        UserError: naming the key, what was found and what is expected.
    """
    schema = _schema()
    validate(config, schema, where)
    completed = _with_defaults(config, schema, schema["$defs"])
    _take_corpora_from_the_paper(completed, where)
    _check_rows_of_the_paper(completed["translation"], where)
    _check_corpus(completed, where)
    _check_downloads(completed, where)
    for kind in ("translation", "language_models"):
        _check_distinct_names(completed, kind, where)
    _check_compression(completed, where)
    _check_baselines(completed["translation"], where)
    return completed


@cache
def _schema() -> dict[str, Any]:
    return load_yaml(SCHEMA)


def _with_defaults(value: Any, schema: dict[str, Any], definitions: dict[str, Any]) -> Any:
    schema = _resolve(schema, definitions)
    if isinstance(value, list):
        return [_with_defaults(item, schema.get("items", {}), definitions) for item in value]
    if not isinstance(value, dict):
        return value
    completed = dict(value)
    for key, part in schema.get("properties", {}).items():
        part = _resolve(part, definitions)
        if key not in completed and "default" in part:
            completed[key] = part["default"]
        if key in completed:
            completed[key] = _with_defaults(completed[key], part, definitions)
    return completed


def _resolve(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    return {**definitions[schema["$ref"].rsplit("/", 1)[1]], **schema}


def _take_corpora_from_the_paper(config: dict[str, Any], where: str) -> None:
    for run in config.get("language_models", {"runs": []})["runs"]:
        if "paper" not in run and "corpus" not in run:
            raise UserError(
                f"{where}: language_models, run {run['name']!r} lacks the key 'corpus', or 'paper'"
            )
        if "paper" in run:
            try:
                row = paper_run(run["paper"])
            except UserError as error:
                place = f"{where}: language_models, run {run['name']!r}"
                raise UserError(f"{place}: {error}") from error
            run.setdefault("corpus", {"download": row["corpus"]})


def _check_rows_of_the_paper(translation: dict[str, Any], where: str) -> None:
    for run in translation["runs"]:
        if "paper" not in run:
            continue
        place = f"{where}: translation, run {run['name']!r}"
        try:
            row = find_row(run["paper"])
        except UserError as error:
            raise UserError(f"{place}: {error}") from error
        if (row.settings or {}).get("model") != "transformer":
            raise UserError(
                f"{place}: paper is {run['paper']!r}, which isn't a translation model trained "
                "here, expected one such as table3/define"
            )


def _check_corpus(config: dict[str, Any], where: str) -> None:
    corpus = config["corpus"]
    kinds = [kind for kind in CORPUS_KINDS if kind in corpus]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none of them"
        raise UserError(
            f"{where}: corpus has {found}, expected exactly one of {', '.join(CORPUS_KINDS)}"
        )
    if kinds == ["files"]:
        _check_lists(corpus["files"]["train"], where)
        for test_set in config["test_sets"]:
            if test_set not in corpus["files"]["test_sets"]:
                raise UserError(
                    f"{where}: test_sets names {test_set!r}, but corpus.files.test_sets has only "
                    f"{', '.join(corpus['files']['test_sets'])}"
                )
    if kinds == ["generate"]:
        if config["test_sets"] != ["test"]:
            raise UserError(
                f"{where}: test_sets is {config['test_sets']}, but a generated corpus has the one "
                "test set 'test'"
            )
        if {config["source_language"], config["target_language"]} != {"en", "de"}:
            raise UserError(f"{where}: a generated corpus has the languages en and de only")
    if reserved := {"train", "valid"} & set(config["test_sets"]):
        raise UserError(f"{where}: a test set can't be called {sorted(reserved)[0]!r}")
    if config["source_language"] == config["target_language"]:
        raise UserError(
            f"{where}: source_language and target_language are both {config['source_language']!r}"
        )


def _check_lists(train: dict[str, Any], where: str) -> None:
    source, target = (
        [train[side]] if isinstance(train[side], str) else train[side]
        for side in ("source", "target")
    )
    if len(source) != len(target):
        raise UserError(
            f"{where}: corpus.files.train has {len(source)} source and {len(target)} target "
            "files, expected as many"
        )


def _check_downloads(config: dict[str, Any], where: str) -> None:
    """Known downloads of the right kind, and languages that the parallel text has."""
    try:
        corpus_splits(config)
        for run in config.get("language_models", {"runs": []})["runs"]:
            if "download" in run["corpus"]:
                raw_splits(run["corpus"]["download"], ["test"])
            elif run["corpus"].get("language", languages(config)[0]) not in languages(config):
                raise UserError(
                    f"language_models, run {run['name']!r}: language is "
                    f"{run['corpus']['language']!r}, expected one of {', '.join(languages(config))}"
                )
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def _check_baselines(translation: dict[str, Any], where: str) -> None:
    names = [run["name"] for run in translation["runs"]]
    of_all = translation.setdefault("baseline", names[0])
    named = {"translation.baseline": of_all}
    for index, run in enumerate(translation["runs"]):
        named[f"translation.runs[{index}].baseline"] = run.setdefault("baseline", of_all)
    for key, baseline in named.items():
        if baseline not in names:
            raise UserError(
                f"{where}: {key} is {baseline!r}, expected one of the runs: {', '.join(names)}"
            )


def languages(config: dict[str, Any]) -> list[str]:
    """Source and target language."""
    return [config["source_language"], config["target_language"]]


def corpus_splits(config: dict[str, Any]) -> list[str]:
    """The splits of the parallel text: train, valid and test sets."""
    if download := config["corpus"].get("download"):
        return raw_splits(download, config["test_sets"], languages(config))
    return ["train", "valid", *config["test_sets"]]


def corpus_folders(config: dict[str, Any]) -> tuple[str, str, str]:
    """The folders of raw, clean and encoded text; a key stands for the settings that made it."""
    folder = f"data/{config['corpus']['name']}"
    clean = settings_key(languages(config), config["cleaning"])
    return (
        f"{folder}/raw",
        f"{folder}/clean-{clean}",
        f"{folder}/bpe-{settings_key(clean, config['bpe'])}",
    )


def _check_distinct_names(config: dict[str, Any], kind: str, where: str) -> None:
    names = Counter(run["name"] for run in config.get(kind, {}).get("runs", []))
    for name, count in names.items():
        if count > 1:
            raise UserError(f"{where}: {count} runs in {kind} are called {name!r}, expected one")


def _check_compression(config: dict[str, Any], where: str) -> None:
    names = [
        run["name"]
        for kind in ("translation", "language_models")
        for run in config.get(kind, {}).get("runs", [])
    ]
    for name in (config["compression"] or {}).get("runs", []):
        if name not in names:
            raise UserError(
                f"{where}: compression.runs has {name!r}, expected one of {', '.join(names)}"
            )


def settings_key(*settings: Any) -> str:
    """A short hash that names a folder after the settings that made its content."""
    canonical = json.dumps(settings, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:8]
