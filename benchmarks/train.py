#!/usr/bin/env python
"""Training speed: OpenNMT-py's own loop against the packed loop, and DeFINE against standard.

Example, one GPU:

    python benchmarks/train.py --output train.csv

Each contender is an `onmt_train` of a Transformer on the same text, with the same number of tokens
in an optimizer step, its reading included; they run in turn. Speed is the median of the source
tokens a second that `onmt_train` reports, the first reports left out. The text is made up: words
by Zipf's law, lengths as in news text; `--source` and `--target` take a real one.
"""

import argparse
import csv
import re
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

STOCK, PACKED = "stock", "packed"
CONTENDERS = {
    "stock": {"training_loop": STOCK, "embedding_type": "standard"},
    "packed": {"training_loop": PACKED},
    "packed define": {"training_loop": PACKED, "embedding_type": "define"},
}
COLUMNS = (
    *("contender", "repeat", "gpus", "tokens_per_second", "seconds_to_first_report"),
    "memory_mb",
)
PEAK_FLOPS = {"H100": 989e12, "H200": 989e12}
SPECIALS = ("<unk>", "<blank>", "<s>", "</s>")
REPORT = re.compile(r"\[(\S+ \S+),\d+ INFO\] Step .* (\d+)/ *\d+ tok/s")


def main() -> None:
    """Train with every contender, print a table and write a CSV file."""
    arguments = parse_arguments(__doc__, "train.csv")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        text = make_text(arguments, Path(folder))
        for repeat in range(1, arguments.repeats + 1):
            for name in arguments.contenders:
                row = measure(name, arguments, text, Path(folder))
                rows.append({"contender": name, "repeat": repeat, "gpus": arguments.gpus, **row})
                print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
        reading = reading_speed(arguments, text, Path(folder))
    with open(arguments.output, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    print_table(rows, arguments, reading)


def parse_arguments(description: str | None, output: str) -> Namespace:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--source", help="source text, tokens between spaces (default: made up)")
    add("--target", help="target text")
    add("--output", default=output, metavar="FILE", help="file to write (%(default)s)")
    add("--gpus", type=int, default=torch.cuda.device_count(), help="GPUs (%(default)s)")
    add("--dropout", type=float, default=0.1, help="also of the attention (%(default)s)")
    add("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), metavar="NAME")
    for name, default, text in (
        ("steps", 200, "optimizer steps of each training"),
        ("packed-steps", 500, "the same for the packed loop, which is faster"),
        ("report", 20, "steps between two reports"),
        ("tokens", 25_000, "tokens of an optimizer step on one GPU"),
        ("stock-batch", 12_500, "batch_size of OpenNMT-py's loop, which accumulates the rest"),
        ("workers", 12, "processes that read for OpenNMT-py's loop"),
        ("bucket", 32_768, "bucket_size of OpenNMT-py's loop"),
        ("repeats", 1, "times each contender is measured"),
        ("sentences", 200_000, "sentence pairs of the made-up text"),
        ("vocabulary", 32_000, "tokens known to each side"),
        ("width", 512, "width of the model"),
        ("layers", 6, "layers of encoder and of decoder"),
        ("heads", 8, "attention heads"),
        ("ff", 2048, "width of the feed-forward layers"),
        ("map-dim", 128, "n, width of the DeFINE token table"),
        ("expand-dim", 1024, "k of the DeFINE unit"),
    ):
        add(f"--{name}", type=int, default=default, metavar="N", help=f"{text} (%(default)s)")
    arguments = parser.parse_args()
    if bool(arguments.source) != bool(arguments.target):
        parser.error("--source and --target belong together")
    return arguments


def make_text(arguments: Namespace, folder: Path) -> dict[str, Path]:
    """Both sides and a vocabulary; made up unless given."""
    words = [*SPECIALS, *(f"w{number}" for number in range(arguments.vocabulary - len(SPECIALS)))]
    if arguments.source:
        counts: dict[str, int] = {}
        for path in (arguments.source, arguments.target):
            for word in Path(path).read_text("utf-8").split():
                counts[word] = counts.get(word, 0) + 1
        frequent = sorted(counts, key=counts.__getitem__, reverse=True)
        words = [*SPECIALS, *frequent[: arguments.vocabulary - len(SPECIALS)]]
    (folder / "vocabulary").write_text("".join(f"{word}\t1\n" for word in words), "utf-8")
    if arguments.source:
        return {"src": Path(arguments.source), "tgt": Path(arguments.target)}
    rng = np.random.default_rng(1)
    of_pair = rng.lognormal(np.log(25), 0.55, arguments.sentences)
    ranks = np.arange(1, arguments.vocabulary - len(SPECIALS) + 1)
    chances = (1 / ranks).cumsum() / (1 / ranks).sum()
    paths = {}
    for side in ("src", "tgt"):
        lengths = np.clip(of_pair * rng.normal(1.0, 0.12, len(of_pair)), 1, 150).astype(int)
        drawn = np.searchsorted(chances, rng.random(lengths.sum()))
        paths[side] = folder / f"train.{side}"
        with open(paths[side], "w", encoding="utf-8") as file:
            end = 0
            for length in lengths:
                end += length
                file.write(" ".join([f"w{word}" for word in drawn[end - length : end]]) + "\n")
    return paths


def configuration(
    name: str, arguments: Namespace, text: dict[str, Path], folder: Path
) -> dict[str, Any]:
    """The options of one training; the model is the same but for its embedding."""
    packed = CONTENDERS[name]["training_loop"] == PACKED
    options = {
        "data": {"train": {"path_src": str(text["src"]), "path_tgt": str(text["tgt"])}},
        "src_vocab": str(folder / "vocabulary"),
        "tgt_vocab": str(folder / "vocabulary"),
        "share_vocab": True,
        "save_model": str(folder / "model"),
        "keep_checkpoint": 0,
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "position_encoding": True,
        "word_vec_size": arguments.width,
        "hidden_size": arguments.width,
        "layers": arguments.layers,
        "heads": arguments.heads,
        "transformer_ff": arguments.ff,
        "define_map_dim": arguments.map_dim,
        "define_expand_dim": arguments.expand_dim,
        "dropout": [arguments.dropout],
        "attention_dropout": [arguments.dropout],
        "label_smoothing": 0.1,
        "param_init": 0,
        "param_init_glorot": True,
        "optim": "adam",
        "adam_beta2": 0.998,
        "decay_method": "noam",
        "learning_rate": 2,
        "warmup_steps": 8000,
        "max_grad_norm": 0,
        "batch_type": "tokens",
        "normalization": "tokens",
        "report_every": arguments.report,
        "train_steps": arguments.packed_steps if packed else arguments.steps,
        "seed": 1,
        **CONTENDERS[name],
    }
    if arguments.gpus:
        options |= {"world_size": arguments.gpus, "gpu_ranks": list(range(arguments.gpus))}
    if packed:
        return options | {"batch_size": arguments.tokens, "packed_data": str(folder / "ids")}
    half = {"model_dtype": "fp16"} if arguments.gpus else {}
    accumulation = round(arguments.tokens / arguments.stock_batch)
    return (
        options
        | half
        | {
            "batch_size": arguments.stock_batch,
            "accum_count": [accumulation],
            "num_workers": arguments.workers,
            "bucket_size": arguments.bucket,
        }
    )


def measure(name: str, arguments: Namespace, text: dict[str, Path], folder: Path) -> dict[str, Any]:
    """Run one training; its speed, memory and the time before it got going."""
    path = folder / "train.yaml"
    path.write_text(yaml.safe_dump(configuration(name, arguments, text, folder)))
    started = time.time()
    process = subprocess.Popen(
        [sys.executable, "-m", "onmt_define.opennmt", "train", "-config", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    reports, lines, memory = [], [], 0
    for line in process.stdout:
        lines.append(line)
        if match := REPORT.search(line):
            when = datetime.fromisoformat(match[1]).timestamp()
            reports.append((when, int(match[2])))
            memory = max(memory, memory_in_use(arguments.gpus))
    if process.wait() or len(reports) < 4:
        sys.exit(f"{name} failed:\n{''.join(lines[-40:])}")
    settled = reports[len(reports) // 3 :]
    return {
        "tokens_per_second": round(statistics.median(speed for _, speed in settled)),
        "seconds_to_first_report": round(reports[0][0] - started, 1),
        "memory_mb": memory,
    }


def memory_in_use(gpus: int) -> int:
    """MB in use on the first GPU, by all processes."""
    if not gpus:
        return 0
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"]
    return int(subprocess.run(command, capture_output=True, text=True).stdout.split()[0])


def reading_speed(arguments: Namespace, text: dict[str, Path], folder: Path) -> float:
    """Source tokens a second at which the packed loop's batches alone are made."""
    from onmt_define.opennmt.packed_training.batches import Corpus, PackedBatches, SpecialTokens
    from onmt_define.opennmt.packed_training.token_files import open_token_file

    lines = (folder / "vocabulary").read_text("utf-8").splitlines()
    vocabulary = Namespace(ids_to_tokens=[line.split("\t")[0] for line in lines], default_id=0)
    sides = (open_token_file(side, path, vocabulary, folder, print) for side, path in text.items())
    batches = iter(
        PackedBatches([Corpus(*sides, 1)], SpecialTokens(1, 1, 2, 3), arguments.tokens, seed=1)
    )
    next(batches)
    started, read = time.perf_counter(), 0
    for _ in range(200):
        read += next(batches).source_words
    return read / (time.perf_counter() - started)


def flops_per_token(arguments: Namespace) -> float:
    """Forward and backward of a source token and the target token beside it; not attention."""
    width, layers = arguments.width, arguments.layers
    feed_forward = 2 * width * arguments.ff
    encoder, decoder = 4 * width**2 + feed_forward, 8 * width**2 + feed_forward
    return 6 * (layers * (encoder + decoder) + width * arguments.vocabulary)


def print_table(rows: list[dict[str, Any]], arguments: Namespace, reading: float) -> None:
    """Medians over the repetitions, with ratios to the first contender."""
    names = list(dict.fromkeys(row["contender"] for row in rows))

    def median(name: str, column: str) -> float:
        return statistics.median(row[column] for row in rows if row["contender"] == name)

    card = (
        torch.cuda.get_device_name()
        if arguments.gpus
        else f"CPU, {torch.get_num_threads()} threads"
    )
    peak = next((peak for name, peak in PEAK_FLOPS.items() if name in card), None)
    print(f"\n{max(arguments.gpus, 1)} x {card}, torch {torch.__version__}")
    print(
        f"{'':16} {'tokens/s':>10} {'ratio':>6} {'FLOP use':>9} {'first report':>13} {'memory':>9}"
    )
    for name in names:
        speed = median(name, "tokens_per_second")
        use = speed * flops_per_token(arguments) / peak / arguments.gpus if peak else 0
        print(
            f"{name:16} {speed:10,.0f} {speed / median(names[0], 'tokens_per_second'):6.2f} "
            f"{use:9.1%} {median(name, 'seconds_to_first_report'):11.1f} s "
            f"{median(name, 'memory_mb'):6,.0f} MB"
        )
    fastest = max(median(name, "tokens_per_second") for name in names) / max(arguments.gpus, 1)
    print(
        f"packed batches alone: {reading:,.0f} source tokens/s, {fastest / reading:.1%} of a step"
    )


if __name__ == "__main__":
    main()
