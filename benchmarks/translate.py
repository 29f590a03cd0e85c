#!/usr/bin/env python
"""Speed and memory of translating: standard, DeFINE, DeFINE folded, and folded in CTranslate2.

Example, two minutes on two cores:

    python benchmarks/translate.py --text texts/test.en --output translate.csv

Models of the given size with random weights translate the first sentences of a real text, each
sentence into the same number of tokens, so that the ratios compare equal work. Every system is a
process of its own, which loads its model, warms up, and translates the text once in every round, in
turn with the others; so what else the machine does hits all of them alike. The table shows medians
over the rounds, of the ratios too. Loading isn't timed. Memory is the process's largest resident
set on the CPU, and what the process added to the device's use on a GPU.
"""

import argparse
import collections
import contextlib
import csv
import importlib.util
import json
import operator
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

SYSTEMS = {
    "standard": "stock OpenNMT-py, standard table",
    "define": "OpenNMT-py, DeFINE unfolded (table kept in memory)",
    "folded": "stock OpenNMT-py, DeFINE folded",
    "ct2-float32": "CTranslate2 float32, DeFINE folded",
    "ct2-int8": "CTranslate2 int8, DeFINE folded",
}
COLUMNS = ("system", "round", "tokens", "seconds", "tokens_per_second", "memory_mb", "file_mb")
ANSWER = "measured: "
SPECIALS = ("<unk>", "<blank>", "<s>", "</s>")


def main() -> None:
    """Measure all systems, print a table and write a CSV file."""
    warnings.simplefilter("ignore", FutureWarning)  # OpenNMT-py's, under a newer torch
    arguments = parse_arguments()
    if arguments.system:
        serve(arguments)
        return
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        arguments.models = folder
        systems = installed_systems()
        make_models(arguments, systems)
        contenders = [stack.enter_context(Contender(system, arguments)) for system in systems]
        rows = []
        for number in range(1, arguments.rounds + 1):
            for contender in contenders:
                row = {"system": contender.system, "round": number, **contender.translate()}
                print(
                    f"{row['system']:12} {number} {row['tokens_per_second']:8.0f} tokens/s",
                    flush=True,
                )
                rows.append(row)
    with open(arguments.output, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    print_table(rows)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--text", required=True, help="source text, a sentence a line, tokens between spaces")
    add("--output", default="translate.csv", metavar="FILE", help="CSV to write (%(default)s)")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="(%(default)s)")
    for name, default, text in (
        ("sentences", 200, "sentences to translate"),
        ("tokens", 20, "tokens of each translation"),
        ("beam", 1, "beam size; 1 is greedy"),
        ("batch", 32, "sentences translated together"),
        ("rounds", 5, "times that each system translates the text"),
        ("threads", 1, "threads on the CPU"),
        ("vocabulary", 8000, "tokens known to each side"),
        ("width", 256, "m, width of the model"),
        ("layers", 2, "layers of encoder and of decoder"),
        ("heads", 4, "attention heads"),
        ("ff", 1024, "width of the feed-forward layers"),
        ("map-dim", 64, "n, width of the DeFINE token table"),
        ("expand-dim", 512, "k of the DeFINE unit"),
        ("depth", 3, "N of the DeFINE unit"),
        ("groups", 8, "largest number of groups in the DeFINE unit"),
    ):
        add(f"--{name}", type=int, default=default, metavar="N", help=f"{text} (%(default)s)")
    add("--system", choices=SYSTEMS, help=argparse.SUPPRESS)
    add("--models", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not Path(arguments.text).is_file():
        parser.error(f"there is no file {arguments.text}")
    return arguments


def read_sentences(arguments: argparse.Namespace) -> list[str]:
    """The first non-empty lines of the text."""
    with open(arguments.text, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[: arguments.sentences]


def installed_systems() -> list[str]:
    """The systems that can be measured here."""
    if importlib.util.find_spec("ctranslate2"):
        return list(SYSTEMS)
    print("CTranslate2 isn't installed, so it is left out (pip install ctranslate2)")
    return [system for system in SYSTEMS if not system.startswith("ct2")]


def make_models(arguments: argparse.Namespace, systems: list[str]) -> None:
    """Write all models below `arguments.models`: random weights, vocabulary of the text."""
    from onmt_define.opennmt.folding import fold_file

    folder = Path(arguments.models)
    words = collections.Counter(" ".join(read_sentences(arguments)).split())
    tokens = [*SPECIALS, *(word for word, _ in words.most_common(arguments.vocabulary - 4))]
    tokens += [f"<filler{index}>" for index in range(arguments.vocabulary - len(tokens))]
    for embedding_type in ("standard", "define"):
        save_random_model(folder / f"{embedding_type}.pt", embedding_type, tokens, arguments)
    fold_file(folder / "define.pt", folder / "folded.pt")
    for system in [system for system in systems if system.startswith("ct2")]:
        from ctranslate2.converters import OpenNMTPyConverter

        quantization = system.removeprefix("ct2-")
        converter = OpenNMTPyConverter(str(folder / "folded.pt"))
        converter.convert(str(folder / system), quantization=quantization)


def save_random_model(
    path: Path, embedding_type: str, tokens: list[str], arguments: argparse.Namespace
) -> None:
    """Build a model as onmt_train does and save it at once."""
    import onmt_define.opennmt.startup  # noqa: F401  the plug-in, also without its start-up file

    import torch  # isort: skip
    from onmt.inputters.inputter import dict_to_vocabs
    from onmt.model_builder import build_model
    from onmt.opts import train_opts
    from onmt.utils.parse import ArgumentParser

    from onmt_define.opennmt import checkpoint_files

    parser = ArgumentParser()
    train_opts(parser)
    opt, _ = parser.parse_known_args(["-data", "{}", "-src_vocab", "-", "-save_model", "-"])
    vars(opt).update(
        embedding_type=embedding_type,
        define_map_dim=arguments.map_dim,
        define_expand_dim=arguments.expand_dim,
        define_depth=arguments.depth,
        define_groups=arguments.groups,
        encoder_type="transformer",
        decoder_type="transformer",
        position_encoding=True,
        word_vec_size=arguments.width,
        hidden_size=arguments.width,
        layers=arguments.layers,
        heads=arguments.heads,
        transformer_ff=arguments.ff,
        self_attn_type="scaled-dot",
        param_init=0,
        param_init_glorot=True,
    )
    ArgumentParser.update_model_opts(opt)
    ArgumentParser.validate_model_opts(opt)
    vocab = {"src": tokens, "tgt": tokens, "decoder_start_token": "<s>", "data_task": "seq2seq"}
    torch.manual_seed(1)
    model = build_model(opt, opt, dict_to_vocabs(vocab), None, -1)
    weights = {k: v for k, v in model.state_dict().items() if not k.startswith("generator.")}
    checkpoint = {"model": weights, "generator": model.generator.state_dict()}
    checkpoint_files.save({**checkpoint, "vocab": vocab, "opt": opt, "optim": None}, path)


class Contender:
    """A process that has loaded one system and translates the text whenever it is asked to."""

    def __init__(self, system: str, arguments: argparse.Namespace) -> None:
        self.system = system
        options = [
            f"--{name.replace('_', '-')}={value}"
            for name, value in vars(arguments).items()
            if value is not None and name != "system"
        ]
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  as long as the process
        self.process = subprocess.Popen(
            [sys.executable, __file__, *options, "--system", system],
            env={**os.environ, "OMP_NUM_THREADS": str(arguments.threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def __enter__(self) -> "Contender":
        self._answer()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def translate(self) -> dict[str, Any]:
        """One measurement, what `COLUMNS` lists."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        # OpenNMT-py prints lines of its own.
        for line in self.process.stdout:
            if line.startswith(ANSWER):
                return json.loads(line.removeprefix(ANSWER))
        self.errors.seek(0)
        sys.exit(f"{self.system} failed:\n{self.errors.read()}")


def serve(arguments: argparse.Namespace) -> None:
    """Load one system, warm it up with a batch, then time it once for every line of the input."""
    sentences = read_sentences(arguments)
    path = Path(arguments.models) / arguments.system
    in_use = gpu_memory_in_use(arguments.device)
    if arguments.system.startswith("ct2"):
        translate = load_ctranslate2(path, arguments)
    else:
        path = path.with_suffix(".pt")
        translate = load_opennmt(path, arguments)
    translate(sentences[: arguments.batch])
    own = gpu_memory_in_use(arguments.device) - in_use  # the others are idle meanwhile
    files = path.rglob("*") if path.is_dir() else [path]
    file_mb = round(sum(file.stat().st_size for file in files) / 1e6, 1)
    print(f"{ANSWER}{{}}", flush=True)
    for _ in sys.stdin:
        before = gpu_memory_in_use(arguments.device)
        start = time.perf_counter()
        tokens = translate(sentences)
        seconds = time.perf_counter() - start
        if tokens != len(sentences) * arguments.tokens:
            sys.exit(f"{tokens} tokens, expected {arguments.tokens} for each sentence")
        own += gpu_memory_in_use(arguments.device) - before
        memory = own if arguments.device == "cuda" else largest_resident_set()
        measured = {
            "tokens": tokens,
            "seconds": round(seconds, 3),
            "tokens_per_second": round(tokens / seconds, 1),
            "memory_mb": round(memory / 1e6),
            "file_mb": file_mb,
        }
        print(f"{ANSWER}{json.dumps(measured)}", flush=True)


def largest_resident_set() -> int:
    """Bytes; not `ru_maxrss`, which a process inherits from the one that started it."""
    status = Path("/proc/self/status").read_text("ascii")
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])


def gpu_memory_in_use(device: str) -> int:
    """Bytes in use on the GPU by all processes."""
    if device == "cpu":
        return 0
    import torch

    free, total = torch.cuda.mem_get_info()
    return total - free


def load_opennmt(path: Path, arguments: argparse.Namespace) -> Any:
    """A function from sentences to the number of tokens that OpenNMT-py makes of them."""
    import onmt_define.opennmt.startup  # noqa: F401  the plug-in, also without its start-up file

    import torch  # isort: skip
    from onmt.inference_engine import InferenceEnginePY
    from onmt.opts import translate_opts
    from onmt.utils.parse import ArgumentParser

    torch.set_num_threads(arguments.threads)
    parser = ArgumentParser()
    translate_opts(parser)
    tokens = str(arguments.tokens)
    opt = parser.parse_args(
        [
            *("-model", str(path), "-src", arguments.text, "-output", os.devnull),
            *("-gpu", "0" if arguments.device == "cuda" else "-1"),
            *("-beam_size", str(arguments.beam), "-batch_size", str(arguments.batch)),
            *("-min_length", tokens, "-max_length", tokens, "-max_length_ratio", "0"),
        ]
    )
    ArgumentParser.validate_translate_opts(opt)
    ArgumentParser._get_all_transform_translate(opt)
    ArgumentParser._validate_transforms_opts(opt)
    ArgumentParser.validate_translate_opts_dynamic(opt)
    engine = InferenceEnginePY(opt)

    def translate(sentences: list[str]) -> int:
        _, predictions = engine.infer_list(sentences)
        return sum(len(best[0].split()) for best in predictions)

    return translate


def load_ctranslate2(path: Path, arguments: argparse.Namespace) -> Any:
    """The same with CTranslate2."""
    import ctranslate2

    translator = ctranslate2.Translator(
        str(path),
        device=arguments.device,
        intra_threads=arguments.threads,
        compute_type=arguments.system.removeprefix("ct2-"),
    )

    def translate(sentences: list[str]) -> int:
        results = translator.translate_batch(
            [sentence.split() for sentence in sentences],
            beam_size=arguments.beam,
            max_batch_size=arguments.batch,
            min_decoding_length=arguments.tokens,
            max_decoding_length=arguments.tokens,
        )
        return sum(len(result.hypotheses[0]) for result in results)

    return translate


def print_table(rows: list[dict[str, Any]]) -> None:
    """Medians over the rounds, with ratios to the standard model in the same round."""

    def values(system: str, column: str) -> list[float]:
        return [row[column] for row in rows if row["system"] == system]

    standard = values("standard", "tokens_per_second")
    print(f"\n{'system':52} {'tokens/s':>9} {'ratio':>6} {'memory MB':>10} {'file MB':>8}")
    for system in dict.fromkeys(row["system"] for row in rows):
        speeds = values(system, "tokens_per_second")
        ratio = statistics.median(map(operator.truediv, speeds, standard))
        memory, size = (
            statistics.median(values(system, name)) for name in ("memory_mb", "file_mb")
        )
        speed = statistics.median(speeds)
        print(f"{SYSTEMS[system]:52} {speed:9,.0f} {ratio:6.2f} {memory:10,.0f} {size:8,.1f}")


if __name__ == "__main__":
    main()
