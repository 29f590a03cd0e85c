"""What each choice that the paper leaves open does to a translation model's learning.

    python benchmarks/ablations.py --config train.yaml --at-once 3 --output ablations.csv

--config is one of onmt_train, of a DeFINE model with `training_loop: packed` and without shared
vocabulary; the workflow leaves one beside each checkpoint (results/NAME/mt/RUN/seedS/train.yaml).
Every variant changes one thing of it and trains from the start, with the same seed; --at-once of
them share the GPU. The table shows their validation perplexities, every --valid-steps steps.

Some variants are no options of the program: they are made here, to know whether they should be.
"""

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tables
import torch
import yaml

COLUMNS = ("variant", "what", "parameters", "validation perplexities", "target tokens/s")
MEAN_OF_GELU = 1 / (2 * math.sqrt(math.pi))  # over the standard normal distribution


@dataclass(frozen=True)
class Variant:
    """What is different: options of onmt_train, arguments of the unit, the built layer."""

    what: str
    options: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    change: Callable[[Any], None] | None = None


def scale_by(factor: float) -> Callable[[Any], None]:
    def change(layer: Any) -> None:
        layer.scale *= factor

    return change


def learn_scale(layer: Any) -> None:
    scale = torch.tensor(layer.__dict__.pop("scale"))
    if hasattr(type(layer), "scale"):
        del type(layer).scale  # a parameter can't have the name of what the class has
    layer.scale = torch.nn.Parameter(scale)


def shrink_table(layer: Any) -> None:
    layer.table_shrinks_by = 8


def enlarge_vectors(layer: Any) -> None:
    """Let a token's vector weigh as much beside a map's output as one of its numbers does."""
    layer.table_shrinks_by = layer.unit.input_dim**-0.5


def multiply_vectors(layer: Any) -> None:
    """The same by a factor in the pass, so that the table's own numbers stay small."""
    factor = layer.unit.input_dim**0.5
    layer.unit.register_forward_pre_hook(lambda _, inputs: (inputs[0] * factor,))


def share_unit(layer: Any) -> None:
    """Give the second side's layer the first one's unit."""
    if not next(layer.unit.parameters()).is_meta:  # else it's built to be counted
        share_unit.unit = layer.unit = getattr(share_unit, "unit", layer.unit)


def centre_gelu(layer: Any) -> None:
    from onmt_define.embeddings import define_unit

    gelu = torch.nn.functional.gelu
    define_unit.ACTIVATIONS["gelu"] = lambda features: gelu(features) - MEAN_OF_GELU
    layer.unit.has_fused_form = False  # whose GELU has its mean


VARIANTS = {
    "define": Variant("as it is"),
    "standard": Variant("OpenNMT-py's table", {"embedding_type": "standard"}),
    "standard-sized": Variant(
        "OpenNMT-py's table, as large as the others at first",
        {"embedding_type": "standard", "embedding_init_rms": 1.3},
    ),
    "projective": Variant("a narrow table and a linear map", {"embedding_type": "projective"}),
    "gelu": Variant("GELU in the unit", {"define_activation": "gelu"}),
    "centred-gelu": Variant(
        "GELU minus its mean", {"define_activation": "gelu"}, change=centre_gelu
    ),
    "silu": Variant("SiLU in the unit", {"define_activation": "silu"}),
    "linear": Variant("no activation in the unit", {"define_activation": "none"}),
    "dropout": Variant("dropout 0.1 in the unit", {"define_dropout": 0.1}),
    "no-norm": Variant("no LayerNorm in the unit", arguments={"norm": "none"}),
    "literal": Variant("the widths of the paper's text", arguments={"widths": "literal"}),
    "double": Variant("an output twice as large", change=scale_by(2)),
    "small-at-first": Variant("vectors half as large at first", {"embedding_init_rms": 0.65}),
    "large-at-first": Variant("vectors twice as large at first", {"embedding_init_rms": 2.6}),
    "learned-scale": Variant("a learned factor of the output", change=learn_scale),
    "small-table": Variant("token vectors an eighth as long at first", change=shrink_table),
    "large-vectors": Variant("token vectors √n times as long at first", change=enlarge_vectors),
    "scaled-vectors": Variant("token vectors times √n in the pass", change=multiply_vectors),
    "one-unit": Variant("one unit for source and target", change=share_unit),
    "tied": Variant("classifier tied to the target table", {"share_decoder_embeddings": True}),
}


def make_variant(variant: Variant) -> None:
    """Change how the plug-in builds DeFINE layers in this process."""
    from onmt_define.opennmt.embedding_types import OpenNMTDefineEmbedding as Layer

    build, initialise, reset = Layer.from_opt.__func__, Layer.__init__, Layer.reset_parameters

    def __init__(self: Any, *positional: Any, **options: Any) -> None:
        initialise(self, *positional, **{**options, **variant.arguments})

    def from_opt(cls: Any, *arguments: Any) -> Any:
        layer = build(cls, *arguments)
        if variant.change:
            variant.change(layer)
        return layer

    def reset_parameters(self: Any) -> None:
        reset(self)
        with torch.no_grad():
            self.map_table.weight /= getattr(self, "table_shrinks_by", 1)

    Layer.__init__, Layer.from_opt = __init__, classmethod(from_opt)
    Layer.reset_parameters = reset_parameters


def train_here(name: str, arguments: list[str]) -> None:
    """Be onmt_train, for one variant."""
    import onmt_define.opennmt.startup  # noqa: F401

    make_variant(VARIANTS[name])
    from onmt.bin.train import main as onmt_train

    sys.argv = ["onmt_train", *arguments]
    onmt_train()


def run(name: str, arguments: argparse.Namespace) -> dict[str, str]:
    """Train a variant in a process of its own and return its row."""
    config = yaml.safe_load(arguments.config.read_text("utf-8"))
    config |= {"train_steps": arguments.steps, "valid_steps": arguments.valid_steps}
    config |= VARIANTS[name].options
    if torch.cuda.is_available():  # the workflow gives the GPUs on the command line
        config |= {"world_size": 1, "gpu_ranks": [0]}
    with tempfile.TemporaryDirectory() as folder:
        config |= {"save_model": f"{folder}/model", "save_checkpoint_steps": arguments.steps}
        path = Path(folder, "train.yaml")
        path.write_text(yaml.safe_dump(config), "utf-8")
        command = [sys.executable, __file__, "--train", name, "-config", str(path)]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        result = subprocess.run(command, capture_output=True, text=True, env=environment)
    log = result.stdout + result.stderr
    if arguments.logs:
        arguments.logs.mkdir(parents=True, exist_ok=True)
        (arguments.logs / f"{name}.log").write_text(log, "utf-8")
    perplexities = re.findall(r"[Vv]alidation perplexity: *([\d.]+)", log)
    if result.returncode:
        perplexities = [f"failed: {log.strip().splitlines()[-1][:120]}"]
    parameters, speed = (
        (re.findall(pattern, log) or ["-"])[-1]
        for pattern in (r"number of parameters: (\d+)", r"/ *(\d+) tok/s")
    )
    cells = name, VARIANTS[name].what, parameters, " ".join(perplexities), speed
    print("  ".join(cells), file=sys.stderr, flush=True)
    return dict(zip(COLUMNS, cells, strict=True))


def main() -> None:
    """Train the variants asked for, print a table and write a CSV file."""
    if sys.argv[1:2] == ["--train"]:
        train_here(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--config", type=Path, required=True, metavar="YAML")
    add("--output", type=Path, required=True, metavar="CSV")
    add("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="NAME")
    add("--steps", type=int, default=2_000)
    add("--valid-steps", type=int, default=1_000)
    add("--at-once", type=int, default=1, help="variants that share the GPU (%(default)s)")
    add("--logs", type=Path, metavar="FOLDER", help="keep what the trainings print")
    arguments = parser.parse_args()
    with ThreadPoolExecutor(arguments.at_once) as pool:
        rows = list(pool.map(lambda name: run(name, arguments), arguments.variants))
    tables.write(arguments.output, COLUMNS, rows)


if __name__ == "__main__":
    main()
