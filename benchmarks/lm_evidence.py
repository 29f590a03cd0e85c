"""Language models on real text, with and without DeFINE, as far as a few minutes go.

    python benchmarks/lm_evidence.py --texts FOLDER --output FOLDER
    python benchmarks/lm_evidence.py --texts FOLDER --output FOLDER --small     a dry run on the CPU

--texts has ptb/ and wikitext-2/, each with train.txt, valid.txt and test.txt. Each GPU takes the
next training as soon as it is free. Written to --output: runs.csv, a row for each training;
curves.csv, its validation perplexity after each epoch; resume.csv, a training that was killed twice
with SIGKILL beside the same one left alone. The same as tables comes last. After --minutes what is
still running is stopped and missing.
"""

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import tables

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "train_language_model.py"


class Training(NamedTuple):
    """A training: a row of the paper and what differs from it."""

    name: str
    paper: str
    corpus: str
    options: dict[str, Any]
    seed: int = 1
    kills: int = 0


# The paper's rows are for WikiText-103, whose bands are wider and which needs less dropout.
WIKITEXT_2 = {
    "classifier": {"cutoffs": [4_000, 12_000]},
    "dropout": 0.4,
    "epochs": 12,
    "decay_epochs": [9],
}
GELU = {"unit": {"activation": "gelu"}}
FAST_XL = {"classifier": {"cutoffs": [4_000, 12_000]}, "epochs": 3, "compile": True}
EXACT_XL = {**FAST_XL, "compile": False, "precision": "float32"}
RESUMED = {"epochs": 2, "save_every": 100}
DEFINE = "table1c/awd-lstm-define"
TRAININGS = [
    Training("awd-lstm", "table1c/awd-lstm", "ptb", {"epochs": 24}),
    Training("lstm-adaptive", "table1a/R2", "wikitext-2", WIKITEXT_2),
    Training("awd-lstm-define", DEFINE, "ptb", {"epochs": 24}),
    Training("lstm-adaptive-define", "table1a/R3", "wikitext-2", WIKITEXT_2),
    # What the unit's activation was before: docs/results/activation.md.
    Training("awd-lstm-define-gelu", DEFINE, "ptb", {"epochs": 24, **GELU}),
    Training("lstm-adaptive-define-gelu", "table1a/R3", "wikitext-2", {**WIKITEXT_2, **GELU}),
    # Exact products on cuDNN, and another seed: is TF32 on our kernels as good?
    Training("awd-lstm-float32", "table1c/awd-lstm", "ptb", {"epochs": 5, "precision": "float32"}),
    Training("awd-lstm-seed2", "table1c/awd-lstm", "ptb", {"epochs": 5}, seed=2),
    # Why an AWD-LSTM with DeFINE lags: its 128 numbers a token, its depth, its learning rate?
    Training("awd-lstm-narrow", "table1c/awd-lstm", "ptb", {"epochs": 12, "map": {"dim": 128}}),
    Training("awd-lstm-define-shallow", DEFINE, "ptb", {"epochs": 4, "unit": {"depth": 3}}),
    Training("awd-lstm-define-slow", DEFINE, "ptb", {"epochs": 12, "learning_rate": 10}),
    # A Transformer-XL of the base size learns as much in bfloat16, compiled and launched as graphs?
    Training("transformer-xl", "table2a/standard-410", "wikitext-2", FAST_XL),
    Training("transformer-xl-float32", "table2a/standard-410", "wikitext-2", EXACT_XL),
    Training("whole", DEFINE, "ptb", RESUMED),
    Training("killed", DEFINE, "ptb", RESUMED, kills=2),
]
LITTLE = {"corpus": "little", "epochs": 2, "save_every": 2, "hidden_size": 24, "layers": 2}
LITTLE |= {"precision": "float32"}
SMALL = {"ptb": LITTLE, "wikitext-2": {**LITTLE, "classifier": {"cutoffs": [100, 1000]}}}

RUN_COLUMNS = (
    *("run", "paper", "corpus", "seed", "precision", "parameters", "epochs", "steps"),
    *("seconds", "tokens_per_second", "valid", "test", "tries", "device"),
)
CURVE_COLUMNS = ("run", "epoch", "step", "perplexity")
RESUME_COLUMNS = ("run", "tries_from_steps", "steps", "valid", "test")


class Worker(threading.Thread):
    """Runs trainings on one GPU until none is left or time is up."""

    def __init__(self, gpu: int, waiting: "queue.SimpleQueue[Training]", work: Any) -> None:
        super().__init__()
        self.gpu, self.waiting, self.work = gpu, waiting, work

    def run(self) -> None:
        while True:
            try:
                training = self.waiting.get_nowait()
            except queue.Empty:
                return
            start = time.monotonic()
            end = self.work.train(training, self.gpu)
            took = f"{time.monotonic() - start:.0f} s"
            print(f"{training.name}: {end} after {took}", file=sys.stderr, flush=True)


class Work:
    """Folders, deadline and command of the trainings."""

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.arguments, self.folder = arguments, folder
        self.end = time.monotonic() + arguments.minutes * 60

    def train(self, training: Training, gpu: int) -> str:
        """Run a training to its end, its own kills included; says how it ended."""
        run = self.folder / training.name
        run.mkdir()
        settings = {"run": training.name, "corpus": training.corpus, **training.options}
        if self.arguments.small:
            settings |= SMALL[training.corpus]
        # JSON is YAML.
        (run / "run.yaml").write_text(json.dumps(settings), encoding="utf-8")
        for kill in range(training.kills + 1):
            process = self.start(training, run, gpu)
            is_last = kill == training.kills
            try:
                if is_last:
                    process.wait(max(1, self.end - time.monotonic()))
                else:
                    self.kill_after_checkpoint(process, run / "checkpoints")
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return "stopped, time is up"
        return "done" if process.returncode == 0 else f"failed, {self.last_words(run)}"

    def start(self, training: Training, run: Path, gpu: int) -> subprocess.Popen:
        command = [sys.executable, str(SCRIPT), "--paper", training.paper]
        command += ["--config", str(run / "run.yaml"), "--seed", str(training.seed)]
        command += ["--texts", str(self.arguments.texts / training.corpus)]
        command += ["--output", str(run), "--gpus", "0" if self.arguments.small else "1"]
        environment = dict(os.environ)
        if not self.arguments.small:
            environment["CUDA_VISIBLE_DEVICES"] = str(gpu)
        with open(run / "output.txt", "a", encoding="utf-8") as output:
            return subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def kill_after_checkpoint(self, process: subprocess.Popen, checkpoints: Path) -> None:
        """Send SIGKILL a moment after the next checkpoint has been written."""
        known = set(checkpoints.glob("*.ckpt"))
        while process.poll() is None and not set(checkpoints.glob("*.ckpt")) - known:
            if time.monotonic() > self.end:
                raise subprocess.TimeoutExpired(process.args, 0)
            time.sleep(0.05)
        time.sleep(0.5)
        process.kill()
        process.wait()

    def last_words(self, run: Path) -> str:
        lines = (run / "output.txt").read_text("utf-8").strip().splitlines()
        return lines[-1][-300:] if lines else "without a word"

    def records(self) -> dict[str, dict[str, Any]]:
        """The records of what came to its end."""
        paths = {training.name: self.folder / training.name for training in TRAININGS}
        return {
            name: json.loads((path / "record.json").read_text("utf-8"))
            for name, path in paths.items()
            if (path / "record.json").exists()
        }


def run_row(name: str, record: dict[str, Any]) -> dict[str, Any]:
    valid, test = (f"{record['perplexity'][split]:.2f}" for split in ("valid", "test"))
    return {
        "run": name,
        "parameters": record["parameters"]["total"],
        "valid": valid,
        "test": test,
        "tries": len(record["tries"]),
        **{
            key: record[key]
            for key in RUN_COLUMNS
            if key in record and key not in ("run", "parameters", "valid", "test", "tries")
        },
    }


def resume_row(name: str, record: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": name,
        "tries_from_steps": " ".join(str(each["from_step"]) for each in record["tries"]),
        "steps": record["steps"],
        # All digits, since the two should agree.
        **{split: f"{record['perplexity'][split]:.6f}" for split in ("valid", "test")},
    }


def main() -> None:
    """Train what there is time for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=8.5)
    parser.add_argument("--small", action="store_true", help="toy sizes on the CPU")
    names = [training.name for training in TRAININGS]
    parser.add_argument("--trainings", nargs="+", choices=names, default=names)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    waiting: queue.SimpleQueue[Training] = queue.SimpleQueue()
    for training in TRAININGS:
        if training.name in arguments.trainings:
            waiting.put(training)
    with tempfile.TemporaryDirectory() as folder:
        work = Work(arguments, Path(folder))
        workers = [Worker(gpu, waiting, work) for gpu in range(arguments.gpus)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        records = work.records()
    curves = [
        {"run": name, **{key: point[key] for key in CURVE_COLUMNS[1:]}}
        for name, record in records.items()
        for point in record["validation"]
    ]
    print()
    tables.write(arguments.output / "curves.csv", CURVE_COLUMNS, curves)
    rows = [resume_row(name, records[name]) for name in ("whole", "killed") if name in records]
    print()
    tables.write(arguments.output / "resume.csv", RESUME_COLUMNS, rows)
    rows = [run_row(name, record) for name, record in records.items()]
    print()
    tables.write(arguments.output / "runs.csv", RUN_COLUMNS, rows)


if __name__ == "__main__":
    main()
