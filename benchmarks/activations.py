"""What the unit's activation does to learning: small language models of real text on a CPU.

Example, 20 minutes on two cores (docs/results/activation.md):

    python benchmarks/activations.py --texts texts/ptb --output activations.csv

--texts has train.txt, valid.txt and test.txt, a sentence a line. Each model is two LSTM layers, 256
and as wide as the token table, on the first --lines lines, trained by `onmt_define lm train` for
--epochs epochs with Adam. Beside the perplexities stands how alike the vectors of different tokens
are before the training: the mean of their cosines over all pairs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import tables
import torch
from torch.nn import functional

from onmt_define import DefineEmbedding
from onmt_define.embeddings.define_unit import ACTIVATIONS

SCRIPT = Path(__file__).parents[1] / "scripts" / "train_language_model.py"
COLUMNS = (
    "input layer",
    "activation",
    "seed",
    "alike at first",
    "epochs' valid perplexity",
    "test",
)
VOCABULARY, MAP_DIM, EXPAND_DIM, WIDTH, GROUPS = 3_000, 64, 512, 256, 8
SETTINGS = {
    **{"model": "lstm", "layers": 2, "hidden_size": 256, "corpus": "part", "dropout": 0.2},
    **{"bptt": 35, "batch_size": 20, "optimizer": "adam", "learning_rate": 0.002},
    **{"gradient_clip": 1, "save_every": 10_000, "vocabulary_size": VOCABULARY},
}
PLAIN = {
    "standard": {"map": {"type": "standard", "dim": WIDTH}},
    "projective": {"map": {"type": "projective", "dim": MAP_DIM, "output_dim": WIDTH}},
}


class Model(NamedTuple):
    """A model to train; `depth` is None without a unit."""

    layer: str
    depth: int | None
    activation: str
    seed: int

    def settings(self) -> dict[str, Any]:
        if self.depth is None:
            return PLAIN[self.layer]
        unit = {"output_dim": WIDTH, "expand_dim": EXPAND_DIM, "depth": self.depth}
        unit |= {"max_groups": GROUPS, "activation": self.activation}
        return {"map": {"type": "standard", "dim": MAP_DIM}, "unit": unit}

    def mean_cosine(self) -> str:
        """Of the vectors of different tokens, untrained."""
        if self.depth is None:
            return "-"
        torch.manual_seed(self.seed)
        layer = DefineEmbedding(
            *(VOCABULARY, WIDTH, MAP_DIM, EXPAND_DIM, self.depth, GROUPS),
            activation=self.activation,
        )
        with torch.no_grad():
            vectors = functional.normalize(layer(torch.arange(VOCABULARY)), dim=1)
        pairs = vectors.sum(0).square().sum() - VOCABULARY
        return f"{pairs / (VOCABULARY * (VOCABULARY - 1)):.2f}"


def models(seeds: int) -> list[Model]:
    layers = [(layer, None, "-") for layer in PLAIN]
    layers += [(f"DeFINE, N={n}", n, name) for n in (3, 7) for name in ACTIVATIONS]
    return [Model(*layer, seed) for layer in layers for seed in range(1, seeds + 1)]


def train(model: Model, texts: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train a model and return its row."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.yaml")
        paths = {split: str(texts / f"{split}.txt") for split in ("train", "valid", "test")}
        run = {"run": "activation", "seed": model.seed, "epochs": arguments.epochs}
        # JSON is YAML.
        path.write_text(json.dumps({**SETTINGS, **paths, **run, **model.settings()}), "utf-8")
        output = Path(folder, "output")
        command = [sys.executable, str(SCRIPT), "--config", str(path), "--output", str(output)]
        subprocess.run([*command, "--gpus", "0"], check=True, stderr=subprocess.DEVNULL)
        record = json.loads((output / "record.json").read_text("utf-8"))
    epochs = " ".join(f"{point['perplexity']:.1f}" for point in record["validation"])
    test = f"{record['perplexity']['test']:.1f}"
    cells = model.layer, model.activation, model.seed, model.mean_cosine(), epochs, test
    print("  ".join(map(str, cells)), file=sys.stderr, flush=True)
    return dict(zip(COLUMNS, cells, strict=True))


def main() -> None:
    """Train all models, print a table and write a CSV file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, metavar="CSV")
    parser.add_argument("--lines", type=int, default=12_000, help="of the training text")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2, help="trainings at a time")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for split, lines in (("train", arguments.lines), ("valid", 1_500), ("test", 1_500)):
            with open(arguments.texts / f"{split}.txt", encoding="utf-8") as text:
                Path(folder, f"{split}.txt").write_text("".join(islice(text, lines)), "utf-8")
        with ThreadPoolExecutor(arguments.processes) as pool:
            rows = list(
                pool.map(
                    lambda model: train(model, Path(folder), arguments), models(arguments.seeds)
                )
            )
    tables.write(arguments.output, COLUMNS, rows)


if __name__ == "__main__":
    main()
