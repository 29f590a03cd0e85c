"""Training of a language model by truncated back-propagation through time, driven by Lightning."""

import shutil
import statistics
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
import torch
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.plugins.environments import LightningEnvironment

from onmt_define.environment import describe_device, versions
from onmt_define.errors import UserError
from onmt_define.gpu_use import sampled, summarise
from onmt_define.lm.batches import BpttBatches
from onmt_define.lm.checkpoint_files import lm_checkpoints
from onmt_define.lm.checkpoints import SaveCheckpoints
from onmt_define.lm.data import SPLITS, Corpus, open_corpus, prepare_corpus
from onmt_define.lm.evaluation import save_model, split_perplexity, write_record
from onmt_define.lm.input_layers import describe_input_layer
from onmt_define.lm.known_corpora import check_known_corpus
from onmt_define.lm.lightning_module import LanguageModelTraining
from onmt_define.lm.model import LanguageModel, build_model, count_parameters
from onmt_define.lm.optimizing import set_precision
from onmt_define.lm.progress import Progress
from onmt_define.lm.reporting import is_first_process, process_rank, report, send_lightning_to_log
from onmt_define.lm.same_run import check_same_run
from onmt_define.run_folder import only_writer


def train(
    settings: dict[str, Any],
    output: str | Path,
    gpus: int = 0,
    threads: int = 1,
    processes: int = 1,
    gpu_log: Path | None = None,
) -> None:
    """Train the model of one resolved run, or go on with it, and write its record.

    Writes `output`/data, `output`/checkpoints, `output`/metrics (CSV) and `output`/tensorboard (one
    folder a try each), and last `output`/model.pt and `output`/record.json.

    On several GPUs Lightning starts the same command once more for each further one; each trains
    on its own part of the streams.

    Args:
        settings: content of a run file, checked and complete (`onmt_define.lm.run_settings`).
        output: folder of this run alone.
        gpus: 0 for the CPU.
        threads: threads of torch on the CPU.
        processes: on the CPU, how many to use.
        gpu_log: table to which the use of the GPUs is appended; none without a GPU.

    Raises:
        UserError: texts, sizes or checkpoints that don't fit; a loss that is no number or has
            exploded; another training in the same folder.
    """
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    send_lightning_to_log()
    torch.set_num_threads(threads)
    torch.manual_seed(settings["seed"])
    with only_writer(output) if is_first_process() else nullcontext():
        _train(settings, output, gpus, threads, gpus or processes, gpu_log)


def _train(
    settings: dict[str, Any],
    output: Path,
    gpus: int,
    threads: int,
    processes: int,
    gpu_log: Path | None,
) -> None:
    precision = set_precision(settings, gpus)
    folder = output / "checkpoints"
    path, first_step = _checkpoint_to_go_on_from(folder, settings)
    corpus = _open_texts(settings, output / "data")
    model = _build(settings, len(corpus.vocabulary))
    parameters = count_parameters(model)
    if not is_first_process():
        torch.manual_seed(settings["seed"] + process_rank())  # other dropout than the first's
    if settings.get("compile"):
        model.context.compile_layers()

    batches = BpttBatches(
        corpus.ids["train"],
        settings["batch_size"],
        settings["bptt"],
        cutoffs=model.output_layer.cutoffs,
        random_seed=settings["seed"] if settings["random_bptt"] else None,
        part=(process_rank(), processes),
    )
    module = LanguageModelTraining(model, settings, corpus, batches, folder)
    progress = Progress(settings["run"], settings["epochs"] * len(batches), processes)
    if first_step == 0 and is_first_process():
        _forget_tries(output)

    trainer = lightning.Trainer(
        accelerator="gpu" if gpus else "cpu",
        devices=processes,
        strategy="ddp" if processes > 1 else "auto",
        precision=precision,
        max_epochs=settings["epochs"],
        limit_val_batches=0,
        callbacks=[progress, SaveCheckpoints(folder, settings["save_every"])],
        logger=_loggers(output, first_step),
        # Else Lightning would look for, and requeue, a job of SLURM.
        plugins=[LightningEnvironment()],
        default_root_dir=output,
        use_distributed_sampler=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    sampled_log = gpu_log if gpus and is_first_process() else None
    with sampled(sampled_log, anew=first_step == 0):
        trainer.fit(module, batches, ckpt_path=path, weights_only=True)
    if not trainer.is_global_zero:
        return

    if module.average.is_running:
        module.average.take_over()
    model.to("cuda" if gpus else "cpu")  # Lightning leaves it on the CPU.
    perplexities = {
        split: split_perplexity(model, corpus, split, settings) for split in ("valid", "test")
    }
    report(
        f"[{settings['run']}] valid perplexity {perplexities['valid']:.2f}, "
        f"test perplexity {perplexities['test']:.2f}"
    )
    record = {
        "kind": "language model",
        "run": settings["run"],
        "paper": settings["paper"],
        "seed": settings["seed"],
        "corpus": settings["corpus"],
        "model": settings["model"],
        "embedding": describe_input_layer(model.input_layer),
        "parameters": parameters,
        "vocabulary": len(corpus.vocabulary),
        "steps": trainer.global_step,
        "epochs": settings["epochs"],
        "seconds": round(progress.seconds, 1),
        "device": describe_device(gpus, threads),
        "precision": settings["precision"],
        "tries": _tries(output / "metrics"),
        "gpu_use": summarise(gpu_log),
        "tokens_per_second": round(median_speed(progress.curve), 1),
        "learning_curve": progress.curve,
        "validation": module.validation,
        "perplexity": perplexities,
        "tokens": corpus.token_counts,
        "versions": versions("lightning"),
    }
    save_model(output / "model.pt", model, settings, corpus.vocabulary)
    write_record(output / "record.json", record)


def _build(settings: dict[str, Any], vocabulary_size: int) -> LanguageModel:
    try:
        return build_model(settings, vocabulary_size)
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
        raise UserError(
            f"run {settings['run']}: there is no memory for a model of these sizes and "
            f"{vocabulary_size:,} token types, expected smaller ones"
        ) from error


def _open_texts(settings: dict[str, Any], folder: Path) -> Corpus:
    """The first process prepares the texts before Lightning starts further ones."""
    if not is_first_process():
        return open_corpus(folder)
    corpus = prepare_corpus(
        {split: settings[split] for split in SPLITS},
        folder,
        settings["min_count"],
        settings["vocabulary_size"],
    )
    check_known_corpus(settings["corpus"], corpus)
    return corpus


def _loggers(output: Path, first_step: int) -> list[Logger]:
    name = f"from-step-{first_step}"
    return [
        CSVLogger(output, "metrics", name, flush_logs_every_n_steps=1),
        TensorBoardLogger(output, "tensorboard", name),
    ]


def _checkpoint_to_go_on_from(folder: Path, settings: dict[str, Any]) -> tuple[Path | None, int]:
    found = lm_checkpoints(folder).newest_valid()
    if found is None:
        return None, 0
    step, path, content = found
    check_same_run(path, content, settings)
    report(f"[{settings['run']}] going on from step {step:,} ({path})")
    return path, step


def _forget_tries(output: Path) -> None:
    """Delete the logs of a training whose checkpoints were deleted to begin anew."""
    for logs in ("metrics", "tensorboard"):
        for folder in (output / logs).glob("from-step-*"):
            shutil.rmtree(folder)


def _tries(metrics: Path) -> list[dict[str, int]]:
    """The steps that the training was started or gone on from; each try logs to its own folder."""
    names = (folder.name.removeprefix("from-step-") for folder in metrics.iterdir())
    return [{"from_step": step} for step in sorted(int(name) for name in names if name.isdecimal())]


def median_speed(curve: list[dict[str, float]]) -> float:
    """Median of the tokens a second over the learning curve, its first point left out."""
    return statistics.median(point["tokens_per_second"] for point in curve[1:] or curve)
