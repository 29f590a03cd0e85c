"""Runs one OpenNMT-py training to its end: GPUs, resuming, progress, and the record of it all.

In the output folder: `checkpoints/` and `learning_curve.json` while it runs, `model.pt` and
`record.json` once it is finished. Repeating a training that was stopped or killed goes on from its
newest whole checkpoint, with the same settings only.
"""

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from onmt_define.checkpoint_folder import CheckpointFolder
from onmt_define.environment import describe_device
from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.gpu_use import sampled, summarise
from onmt_define.opennmt import checkpoint_files
from onmt_define.progress_line import SECONDS_BETWEEN_LINES, progress_line
from onmt_define.run_folder import only_writer
from onmt_define.schema import load_yaml
from onmt_define.stop_signals import StopRequest, die_with_parent, stop_signal
from onmt_define.workflow.gpus import describe, usable_gpus
from onmt_define.workflow.learning_curve import LearningCurve
from onmt_define.workflow.leases import lease
from onmt_define.workflow.opennmt_checkpoints import opennmt_checkpoints
from onmt_define.workflow.same_training import begin, check_same_texts, check_same_training
from onmt_define.workflow.training_config import spread_over_gpus
from onmt_define.workflow.training_record import training_record

SECONDS_TO_WAIT_FOR_RANKS = 7200


def train(
    config_path: str | Path,
    output_dir: str | Path,
    *,
    gpus: int,
    threads: int,
    allow_cpu: bool,
    log_path: str | Path,
    gpu_log: str | Path | None = None,
    corpus: str,
) -> None:
    """Train, or go on training, until `train_steps`; then write model.pt and record.json.

    The model is the kept checkpoint with the lowest validation perplexity, or the last one if that
    wasn't validated.

    Args:
        config_path: a resolved OpenNMT-py configuration for one GPU.
        output_dir: the run's folder, results/NAME/mt/RUN/seedS.
        gpus: number of GPUs to use; the effective batch doesn't depend on it.
        threads: CPU threads for training without a GPU.
        allow_cpu: train on the CPU when there is no GPU.
        log_path: OpenNMT-py's own output is appended here.
        gpu_log: table to which the use of the GPUs is appended; none without GPUs.
        corpus: name of the corpus, for the record.

    Raises:
        UserError: an unfit configuration, no GPU, folder in use, or OpenNMT-py ended with an error.
    """
    output, config = Path(output_dir), load_yaml(config_path)
    if not isinstance(config, dict) or not {"train_steps", "seed"} <= config.keys():
        raise UserError(f"{config_path} lacks train_steps or seed, expected a resolved train.yaml")
    name = f"{output.parent.name} {output.name}"
    gpu_table = Path(gpu_log) if gpu_log else None
    use_gpus = usable_gpus(gpus, allow_cpu, f"training {name}")
    (output / "checkpoints").mkdir(parents=True, exist_ok=True)
    with only_writer(output), open(log_path, "a", encoding="utf-8") as log:
        valid_steps = config.get("valid_steps", 10_000)  # OpenNMT-py's default
        state = _State.load(output / "learning_curve.json", valid_steps)
        checkpoints = opennmt_checkpoints(output / "checkpoints")
        newest = checkpoints.newest_valid()
        step = newest[0] if newest else 0
        if newest:
            check_same_training(output, config)
            check_same_texts(output, config)
        else:
            begin(output, config)
        if step < config["train_steps"]:
            resume = newest[:2] if newest else None
            if resume:
                print(f"[{name}] going on from step {step:,} ({resume[1]})", file=sys.stderr)
            del newest  # its weights needn't wait in memory
            # OpenNMT-py knows nothing of those that it wrote before it was stopped.
            _prune(checkpoints, config)
            state.start_try(step)
            with (
                lease(use_gpus, name, Path(log_path).with_name("gpus.tsv")) as leased,
                sampled(gpu_table, anew=step == 0),
            ):
                state.device = describe(leased) if leased else describe_device(0, threads)
                command = _command(config_path, config, resume, use_gpus, name)
                _run(command, threads, name, config["train_steps"], state, log)
            newest = checkpoints.newest_valid()
            if newest is None or newest[0] < config["train_steps"]:
                raise UserError(
                    f"training {name} ended at step {newest[0] if newest else 0} of "
                    f"{config['train_steps']} without an error of its own; see {log_path}"
                )
        assert newest is not None
        _prune(checkpoints, config)
        steps = newest[0]
        model_step, checkpoint = _best(checkpoints, newest, state.curve, name)
        record = training_record(
            checkpoint,
            run=output.parent.name,
            seed=config["seed"],
            corpus=corpus,
            steps=steps,
            model_step=model_step,
            device=state.device,
            curve=state.curve,
            tries=state.tries,
            gpu_use=summarise(gpu_table),
        )
        with complete_or_absent(output / "record.json") as temporary:
            temporary.write_text(json.dumps(record, indent=1), encoding="utf-8")
        checkpoint_files.save({**checkpoint, "optim": None}, output / "model.pt")


def _best(
    checkpoints: CheckpointFolder,
    newest: tuple[int, Path, dict[str, Any]],
    curve: LearningCurve,
    name: str,
) -> tuple[int, dict[str, Any]]:
    """Step and content of the best whole checkpoint; `newest` is known to be whole."""
    paths = dict(checkpoints.by_step())
    while (step := curve.best_step(paths)) != newest[0]:
        content = checkpoints.read_or_delete(paths.pop(step))
        if content is not None:
            print(
                f"[{name}] model.pt is of step {step:,}, whose validation perplexity is the lowest",
                file=sys.stderr,
            )
            return step, content
    if curve.validation and curve.validation[-1]["step"] != newest[0]:
        print(
            f"[{name}] model.pt is of the last step, {newest[0]:,}, which wasn't validated "
            f"(valid_steps: {curve.valid_steps:,}), so it isn't known to be the best",
            file=sys.stderr,
        )
    return newest[0], newest[2]


def _prune(checkpoints: CheckpointFolder, config: dict[str, Any]) -> None:
    # OpenNMT-py's defaults.
    checkpoints.prune(config.get("keep_checkpoint", -1), config.get("save_checkpoint_steps", 5000))


class _State:
    """The learning curve, the tries so far and the last one's device, kept across tries."""

    def __init__(self, path: Path, valid_steps: int) -> None:
        self.path = path
        self.device = ""
        self.curve = LearningCurve(valid_steps)
        self.tries: list[dict[str, Any]] = []

    @classmethod
    def load(cls, path: Path, valid_steps: int) -> "_State":
        state = cls(path, valid_steps)
        if path.exists():
            try:
                stored = json.loads(path.read_text(encoding="utf-8"))
                state.curve = LearningCurve(valid_steps, stored["training"], stored["validation"])
                state.tries, state.device = stored["tries"], stored.get("device", "")
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(
                    f"{path} is damaged, expected a learning curve as a training leaves it; "
                    "without the file the training goes on with a new one"
                ) from error
        return state

    def start_try(self, step: int) -> None:
        self.curve.forget_after(step)
        if step == 0:
            self.tries = []  # of a training whose checkpoints were deleted to begin anew
        self.tries.append({"from_step": step, "seconds": 0.0})

    def save(self) -> None:
        content = {**self.curve.as_dict(), "tries": self.tries, "device": self.device}
        with complete_or_absent(self.path) as temporary:
            temporary.write_text(json.dumps(content), encoding="utf-8")


def _command(
    config_path: str | Path,
    config: dict[str, Any],
    resume: tuple[int, Path] | None,
    gpus: int,
    name: str,
) -> list[str]:
    command = [sys.executable, "-m", "onmt_define.opennmt", "train", "-config", str(config_path)]
    if gpus:
        batch_size, accumulation = spread_over_gpus(config, gpus)
        print(
            f"[{name}] on {gpus} GPU{'s' * (gpus > 1)}: batch_size {batch_size} on each, "
            f"accum_count {accumulation}",
            file=sys.stderr,
        )
        if "timeout" not in config:
            # OpenNMT-py's minute would end a training whose other ranks wait for a validation;
            # dead ranks are noticed without it.
            command += ["-timeout", str(SECONDS_TO_WAIT_FOR_RANKS)]
        command += ["-world_size", str(gpus), "-gpu_ranks", *map(str, range(gpus))]
        command += ["-batch_size", str(batch_size), "-accum_count", *map(str, accumulation)]
    if resume:
        # OpenNMT-py's own loop starts again at the first line of the corpus; another seed at least
        # draws other batches than those already seen. The packed loop goes on where it was.
        command += ["-train_from", str(resume[1]), "-seed", str(config["seed"] + resume[0])]
    return command


def _run(
    command: list[str],
    threads: int,
    name: str,
    train_steps: int,
    state: _State,
    log: TextIO,
) -> None:
    environment = {
        **os.environ,
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": str(threads),
    }
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        preexec_fn=functools.partial(die_with_parent, os.getpid()),
    )
    progress = _Progress(name, train_steps, state.tries[-1]["from_step"])
    last_line = ""
    assert process.stdout is not None
    with StopRequest().listening(process.send_signal):
        for line in process.stdout:
            log.write(line)
            log.flush()
            last_line = line.strip() or last_line
            is_report = state.curve.read_line(line)
            if is_report or "Validation accuracy" in line:
                state.tries[-1]["seconds"] = round(time.monotonic() - started, 1)
                state.save()
            if is_report:
                progress.show(state.curve.training[-1])
        status = process.wait()
    if number := stop_signal(status):
        name_of_signal = signal.Signals(number).name
        print(f"[{name}] stopped by {name_of_signal}; the same command goes on", file=sys.stderr)
        raise SystemExit(128 + number)
    if status != 0:
        raise UserError(f"training {name} ended with status {status} ({last_line}); see {log.name}")


class _Progress:
    """One line now and then for the person who watches."""

    def __init__(self, name: str, train_steps: int, first_step: int) -> None:
        self.name, self.train_steps, self.first_step = name, train_steps, first_step
        self.started = time.monotonic()
        self.shown = 0.0

    def show(self, point: dict[str, float]) -> None:
        now, step = time.monotonic(), int(point["step"])
        if now - self.shown < SECONDS_BETWEEN_LINES and step < self.train_steps:
            return
        self.shown = now
        done = max(1, step - self.first_step)
        line = progress_line(
            self.name,
            step,
            self.train_steps,
            tokens_per_second=point["tokens_per_second"],
            perplexity=point["train_perplexity"],
            seconds_left=(now - self.started) / done * (self.train_steps - step),
        )
        print(line, file=sys.stderr, flush=True)
