"""From the configuration to each run's settings, and the checks before the first job starts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError
from onmt_define.lm.paper_runs import paper_run
from onmt_define.paper.published import merge
from onmt_define.workflow.config import corpus_folders, languages
from onmt_define.workflow.downloads import check_mirror
from onmt_define.workflow.gpus import require_gpus, visible_gpus
from onmt_define.workflow.same_training import check_same_training
from onmt_define.workflow.training_config import resolve_training

SPLITS = ("train", "valid", "test")


def training_options(config: dict[str, Any], run_name: str) -> dict[str, Any]:
    """The OpenNMT-py options of a translation run: those of all runs, then its own."""
    return {**config["translation"]["training"], **_run(config, "translation", run_name)["options"]}


def translation_settings(config: dict[str, Any], run_name: str, seed: int) -> dict[str, Any]:
    """All that `onmt_train` is told for a translation run's training with one seed."""
    source, target = languages(config)
    return resolve_training(
        training_options(config, run_name),
        bpe_dir=corpus_folders(config)[2],
        output_dir=translation_folder(config, run_name, seed),
        source_language=source,
        target_language=target,
        seed=seed,
    )


def translation_folder(config: dict[str, Any], run_name: str, seed: int) -> Path:
    """Where that training writes."""
    return Path("results", config["name"], "mt", run_name, f"seed{seed}")


def language_model_settings(config: dict[str, Any], run_name: str, seed: int) -> dict[str, Any]:
    """The settings of a language-model run, as its run.yaml has them.

    A run that names a row of the paper takes that row's settings in place of `training`.
    """
    run = _run(config, "language_models", run_name)
    if "paper" in run:
        settings = merge(paper_run(run["paper"]), run["options"])
    else:
        settings = merge(config["language_models"]["training"], run["options"])
    return {
        **settings,
        "run": run_name,
        "seed": seed,
        "corpus": _corpus_name(config, run["corpus"]),
        **dict(zip(SPLITS, language_model_texts(config, run_name), strict=True)),
    }


def language_model_texts(config: dict[str, Any], run_name: str) -> list[str]:
    """Training, validation and test text: a download, files, or a side of the parallel text."""
    corpus = _run(config, "language_models", run_name)["corpus"]
    if "download" in corpus:
        return [f"data/{corpus['download']}/raw/{split}.txt" for split in SPLITS]
    if "files" in corpus:
        return [corpus["files"][split] for split in SPLITS]
    clean = corpus_folders(config)[1]
    splits = ("train", "valid", config["test_sets"][0])
    return [f"{clean}/{split}.{corpus['language']}" for split in splits]


def language_model_folder(config: dict[str, Any], run_name: str, seed: int) -> Path:
    """Where that run's training writes."""
    return Path("results", config["name"], "lm", run_name, f"seed{seed}")


def _corpus_name(config: dict[str, Any], corpus: dict[str, Any]) -> str:
    if "files" in corpus:
        return Path(corpus["files"]["train"]).name
    return corpus.get("download") or f"{config['corpus']['name']} ({corpus['language']})"


def user_files(files: dict[str, Any]) -> list[str]:
    """Every path that a configuration's `corpus.files` names; Snakemake refuses a `~`."""
    return [str(path) for _, path in _user_files(files)]


def check_user_files(files: dict[str, Any], where: str) -> None:
    """Raise `UserError`, naming the key, for the first path of `corpus.files` that is no file."""
    for key, path in _user_files(files):
        if not path.exists():
            raise UserError(f"{where}: corpus.files.{key}: there is no file {path}")
        if not path.is_file():
            raise UserError(f"{where}: corpus.files.{key}: {path} isn't a file, expected text")


def _user_files(files: dict[str, Any]) -> Iterator[tuple[str, Path]]:
    pairs = {"train": files["train"], "valid": files["valid"]}
    pairs |= {f"test_sets.{name}": pair for name, pair in files["test_sets"].items()}
    for split, pair in pairs.items():
        for side in ("source", "target"):
            paths = [pair[side]] if isinstance(pair[side], str) else pair[side]
            yield from ((f"{split}.{side}", Path(path).expanduser()) for path in paths)


def _run(config: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    return next(run for run in config[kind]["runs"] if run["name"] == name)


def _check_limit(largest: dict[str, Any], limit: int, where: str) -> None:
    """A job that Snakemake submits with fewer GPUs than its rule asks for fails on its node."""
    if largest["gpus"] > limit:
        raise UserError(
            f"{where}: run {largest['name']!r} asks for {largest['gpus']} GPUs, but --resources "
            f"gpu={limit} lets a job of a cluster have {limit}; give a larger number or none"
        )


def _check_compression(compression: dict[str, Any] | None, where: str) -> None:
    if compression:
        from onmt_define.compression.model_file import check_sizes

        try:
            check_sizes(compression["codebooks"], compression["codes"])
        except UserError as error:
            raise UserError(f"{where}: compression: {error}") from error


def check_options(
    config: dict[str, Any], where: str, gpus_given: int | None, *, on_cluster: bool = False
) -> None:
    """Check all that can be checked before the first download.

    Args:
        config: the completed configuration.
        where: its name, for the sentences.
        gpus_given: Snakemake's global resource `gpu`; None where nobody limits it or nothing is
            to be trained.
        on_cluster: jobs run on other machines, whose GPUs can't be seen from here.

    Raises:
        UserError: an option that OpenNMT-py or the plug-in refuses, or GPUs or a mirror that aren't
            there.
    """
    if gpus_given is not None:
        runs = [
            *config["translation"]["runs"],
            *config.get("language_models", {"runs": []})["runs"],
        ]
        largest = max(runs, key=lambda run: run["gpus"])
        if on_cluster:
            _check_limit(largest, gpus_given, where)
        else:
            wanted = min(gpus_given, largest["gpus"])
            require_gpus(wanted, len(visible_gpus()), config["allow_cpu"], f"{where}: a training")
    if config["mirror"]:
        check_mirror(config["mirror"])
    from onmt_define.workflow.option_checks import (
        check_averaging,
        check_decoding_options,
        check_training_options,
    )
    from onmt_define.workflow.scoring import require_comet

    if config["translation"]["comet"]:
        require_comet(f"{where}: translation.comet")

    for run in config["translation"]["runs"]:
        options = training_options(config, run["name"])
        check_training_options(options, f"{where}, run {run['name']!r}")
        check_averaging(
            options, config["translation"]["averaging"], f"{where}, run {run['name']!r}"
        )
        for seed in run["seeds"]:
            # In the job it would come after Snakemake has deleted the trained model.
            check_same_training(
                translation_folder(config, run["name"], seed),
                translation_settings(config, run["name"], seed),
            )
    check_decoding_options(config["translation"]["decoding"], f"{where}, translation.decoding")
    _check_compression(config["compression"], where)
    for run in config.get("language_models", {"runs": []})["runs"]:
        _check_language_model(config, run, where)


def _check_language_model(config: dict[str, Any], run: dict[str, Any], where: str) -> None:
    from onmt_define.lm.run_settings import check_run

    place = f"{where}: language_models, run {run['name']!r}"
    for split, path in run["corpus"].get("files", {}).items():
        if not Path(path).is_file():
            raise UserError(f"{place}: corpus.files.{split}: there is no file {path}")
    settings = language_model_settings(config, run["name"], run["seeds"][0])
    completed = check_run(settings, f"{where}, run {run['name']!r}")
    for seed in run["seeds"]:
        folder = language_model_folder(config, run["name"], seed) / "checkpoints"
        _check_same_language_model(folder, {**completed, "seed": seed}, run["corpus"])


def _check_same_language_model(
    checkpoints: Path, settings: dict[str, Any], corpus: dict[str, Any]
) -> None:
    """As with translations, and for the same reason; jobs may be about to write other texts."""
    from onmt_define.lm.checkpoint_files import lm_checkpoints
    from onmt_define.lm.same_run import check_same_run, check_same_settings

    if newest := lm_checkpoints(checkpoints).newest_readable():
        _, path, checkpoint = newest
        check = check_same_run if "files" in corpus else check_same_settings
        check(path, checkpoint, settings)
