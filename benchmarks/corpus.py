"""Time and memory of the workflow's steps on text, at the size of WMT14, and those of plain tools.

Example: nohup python benchmarks/corpus.py --folder /big/disk --processes 2 > corpus.md &

A parallel corpus is generated whose words follow Zipf's law with the steeper slope of rare words
that large corpora have: about a million different English and two million German words.
On its first --sample pairs each step takes turns with the tool that it stands for (sacremoses,
subword-nmt, onmt_build_vocab, all as their own commands); then the steps run on all pairs. Time of
the processor counts all processes of a step; memory is the highest sum of their resident sizes.
Disk: about 1.2 GB per million pairs.
"""

import argparse
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy
import psutil
import yaml

SCRIPTS = Path(__file__).parents[1] / "scripts"
BIN = Path(sys.executable).parent
LANGUAGES = ("en", "de")
MERGES, THRESHOLD = 32_000, 50

BEND = 8_000  # rank from which words become rare more quickly
SLOPE_OF_RARE_WORDS = {"en": 1.7, "de": 1.5}
RANKS = 3_000_000
BATCH = 20_000  # pairs generated at a time
ONSETS = (
    "b",
    "br",
    "d",
    "f",
    "fl",
    "g",
    "h",
    "j",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "st",
    "sch",
    "t",
    "tr",
    "w",
)
VOWELS = {
    "en": ("a", "e", "i", "o", "u", "ea", "ou"),
    "de": ("a", "e", "i", "o", "u", "ä", "ö", "ü", "ei", "ie"),
}
CODAS = ("", "n", "r", "s", "t", "l")


def main() -> None:
    """Generate, compare on the sample, then measure each step on everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=4_500_000, help="pairs of the corpus")
    parser.add_argument("--sample", type=int, default=50_000, help="pairs for the plain tools")
    parser.add_argument("--processes", type=int, default=2, help="processes of a step")
    parser.add_argument("--folder", type=Path, required=True, help="where to write the corpus")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    load = psutil.getloadavg()[0]
    print(f"{psutil.cpu_count()} cores, load {load:.1f} before the start, {arguments.processes}")
    print("processes for each step\n")
    raw = arguments.folder / "raw"
    generate(raw, arguments.pairs, arguments.seed)
    sample = arguments.folder / "sample" / "raw"
    first_lines(raw, sample, min(arguments.sample, arguments.pairs))

    print(f"First {min(arguments.sample, arguments.pairs):,} pairs:\n")
    print("| | plain tool, CPU s | step, CPU s | ratio | plain, s | step, s |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    ours = steps(sample.parent, arguments.processes)
    plain = plain_tools(sample.parent, arguments.processes)
    for (name, commands), (_, plain_commands) in zip(ours, plain, strict=True):
        one, other = measure(plain_commands), measure(commands)
        print(
            f"| {name} | {one.cpu:.1f} | {other.cpu:.1f} | {one.cpu / other.cpu:.2f} "
            f"| {one.seconds:.1f} | {other.seconds:.1f} |",
            flush=True,
        )

    print(f"\nAll {arguments.pairs:,} pairs:\n")
    print("| | s | CPU s | pairs a CPU second | peak memory, GiB |\n|---|---:|---:|---:|---:|")
    for name, commands in steps(arguments.folder, arguments.processes):
        cost = measure(commands)
        print(
            f"| {name} | {cost.seconds:,.0f} | {cost.cpu:,.0f} | {arguments.pairs / cost.cpu:,.0f} "
            f"| {cost.peak / 2**30:.2f} |",
            flush=True,
        )
    print(f"\nLoad {psutil.getloadavg()[0]:.1f} at the end")


# --- The corpus ----------------------------------------------------------------------------------


def generate(folder: Path, pairs: int, seed: int) -> None:
    """Write train.en and train.de of `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(seed)
    words = {language: spellings(language) for language in LANGUAGES}
    cumulative = {language: word_probabilities(language).cumsum() for language in LANGUAGES}
    with ExitStack() as open_files:
        files = {
            language: open_files.enter_context(open(folder / f"train.{language}", "w"))
            for language in LANGUAGES
        }
        for start in range(0, pairs, BATCH):
            size = min(BATCH, pairs - start)
            lengths = numpy.clip(random.lognormal(3.0, 0.6, size), 1, 150).astype(int)
            for language in LANGUAGES:
                draws = random.random(lengths.sum())
                tokens = words[language][numpy.searchsorted(cumulative[language], draws)]
                files[language].writelines(sentences(tokens, lengths, random, language))
                # A translation is about as long; now and then it is something else altogether.
                factor = random.normal(1.0, 0.15, size)
                factor[random.random(size) < 0.01] = 3.0
                lengths = numpy.clip(lengths * factor, 0, 200).astype(int)


def word_probabilities(language: str) -> numpy.ndarray:
    """Zipf's law to the bend, steeper from there on."""
    ranks = numpy.arange(1, RANKS + 1, dtype=float)
    slope = SLOPE_OF_RARE_WORDS[language]
    weights = numpy.where(ranks < BEND, 1 / ranks, BEND ** (slope - 1) / ranks**slope)
    return weights / weights.sum()


def spellings(language: str) -> numpy.ndarray:
    """A different word for each rank, shorter where it is frequent; German ones may be nouns."""
    syllables = [
        onset + vowel + coda for coda in CODAS for vowel in VOWELS[language] for onset in ONSETS
    ]
    words = []
    for rank in range(RANKS):
        rest, word = rank, ""
        while True:
            word += syllables[rest % len(syllables)]
            rest //= len(syllables)
            if not rest:
                break
        words.append(word.capitalize() if language == "de" and rank % 3 == 2 else word)
    return numpy.array(words, dtype=object)


def sentences(
    tokens: numpy.ndarray, lengths: numpy.ndarray, random: numpy.random.Generator, language: str
) -> Iterator[str]:
    """Lines with the marks, figures and capitals that a tokenizer has to deal with."""
    kinds = random.random(len(tokens))
    for limit, change in (
        (0.08, "{},"),
        (0.10, "“{}”" if language == "en" else "„{}“"),
        (0.11, "{}'s" if language == "en" else "{}-{}"),
        (0.12, "({})"),
        (0.14, "1,250.5" if language == "en" else "1.250,5"),
    ):
        chosen = (kinds < limit).nonzero()[0]
        tokens[chosen] = [change.format(word, word) for word in tokens[chosen]]
        kinds[chosen] = 1
    ends = lengths.cumsum()
    for start, end in zip(ends - lengths, ends, strict=True):
        line = " ".join(tokens[start:end])
        yield f"{line[:1].upper()}{line[1:]}.\n" if line else "\n"


def first_lines(folder: Path, sample: Path, count: int) -> None:
    """Copy the first pairs into a folder of their own."""
    sample.mkdir(parents=True, exist_ok=True)
    for language in LANGUAGES:
        with (
            open(folder / f"train.{language}") as whole,
            open(sample / f"train.{language}", "w") as part,
        ):
            part.writelines(islice(whole, count))


# --- The steps and the plain tools ---------------------------------------------------------------


def steps(folder: Path, processes: int) -> list[tuple[str, list[Sequence[str | Path]]]]:
    """Name and commands of each step of the workflow."""
    clean = [folder / "clean" / f"train.{language}" for language in LANGUAGES]
    encoded = [folder / f"train.bpe.{language}" for language in LANGUAGES]
    subwords = [folder / f"subwords.{language}" for language in LANGUAGES]
    vocabularies = [folder / f"vocabulary.{language}" for language in LANGUAGES]
    return [
        (
            "clean",
            [
                [
                    *(sys.executable, SCRIPTS / "clean_corpus.py", "--input", folder / "raw"),
                    *("--output", folder / "clean", "--splits", "train"),
                    *("--source-language", "en", "--target-language", "de"),
                    *("--max-tokens", "100", "--max-length-ratio", "2"),
                    *("--threads", str(processes)),
                ]
            ],
        ),
        (
            "learn BPE",
            [
                [
                    *(sys.executable, SCRIPTS / "learn_bpe.py", "--input", *clean),
                    *("--merges", str(MERGES), "--codes", folder / "codes"),
                    *("--vocabularies", *subwords),
                ]
            ],
        ),
        (
            "apply BPE",
            [
                [
                    *(sys.executable, SCRIPTS / "apply_bpe.py", "--input", text),
                    *("--codes", folder / "codes", "--vocabulary", vocabulary),
                    *("--vocabulary-threshold", str(THRESHOLD), "--output", output),
                    *("--num-workers", str(processes)),
                ]
                for text, vocabulary, output in zip(clean, subwords, encoded, strict=True)
            ],
        ),
        (
            "vocabulary",
            [
                [
                    *(sys.executable, SCRIPTS / "build_vocabulary.py"),
                    *("--source", encoded[0], "--target", encoded[1]),
                    *("--source-vocabulary", vocabularies[0]),
                    *("--target-vocabulary", vocabularies[1]),
                ]
            ],
        ),
    ]


def plain_tools(folder: Path, processes: int) -> list[tuple[str, list[Sequence[str | Path]]]]:
    """The same for the tools that the steps stand for; cleaning is tokenisation alone there.

    Each reads what the step before it wrote, so these run in turn with the steps.
    """
    plain = folder / "plain"
    plain.mkdir(exist_ok=True)
    clean = [folder / "clean" / f"train.{language}" for language in LANGUAGES]
    codes, subwords = plain / "codes", [plain / f"subwords.{language}" for language in LANGUAGES]
    options = {
        "data": {
            "train": {
                "path_src": str(folder / "train.bpe.en"),
                "path_tgt": str(folder / "train.bpe.de"),
            }
        },
        "save_data": str(plain),
        "src_vocab": str(plain / "vocabulary.en"),
        "tgt_vocab": str(plain / "vocabulary.de"),
        "n_sample": -1,
        "overwrite": True,
        "num_threads": processes,
    }
    (plain / "vocabulary.yaml").write_text(yaml.safe_dump(options))
    return [
        (
            "sacremoses",
            [
                [
                    *("sh", "-c", 'exec "$0" -l "$1" -j "$2" normalize tokenize < "$3" > "$4"'),
                    *(BIN / "sacremoses", language, str(processes)),
                    *(folder / "raw" / f"train.{language}", plain / f"train.{language}"),
                ]
                for language in LANGUAGES
            ],
        ),
        (
            "subword-nmt learn-joint-bpe-and-vocab",
            [
                [
                    *(BIN / "subword-nmt", "learn-joint-bpe-and-vocab", "--input", *clean),
                    *("--symbols", str(MERGES), "--output", codes),
                    *("--write-vocabulary", *subwords, "--num-workers", str(processes)),
                ]
            ],
        ),
        (
            "subword-nmt apply-bpe",
            [
                [
                    *(BIN / "subword-nmt", "apply-bpe", "--input", text, "--codes", codes),
                    *("--vocabulary", vocabulary, "--vocabulary-threshold", str(THRESHOLD)),
                    *("--output", plain / f"bpe.{text.suffix}", "--num-workers", str(processes)),
                ]
                for text, vocabulary in zip(clean, subwords, strict=True)
            ],
        ),
        ("onmt_build_vocab", [[BIN / "onmt_build_vocab", "-config", plain / "vocabulary.yaml"]]),
    ]


# --- Measuring -----------------------------------------------------------------------------------


@dataclass
class Cost:
    """Seconds on the clock and of the processors, and the peak of memory in bytes."""

    seconds: float = 0.0
    cpu: float = 0.0
    peak: int = 0


def measure(commands: Sequence[Sequence[str | Path]]) -> Cost:
    """Run the commands one after the other; the highest memory of any."""
    cost = Cost()
    for command in commands:
        started, cpu = time.monotonic(), _cpu_of_children()
        with subprocess.Popen(
            command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        ) as process:
            watch = threading.Thread(target=_watch, args=(psutil.Process(process.pid), cost))
            watch.start()
            status = process.wait()
            watch.join()
        if status != 0:
            sys.exit(f"error: {' '.join(map(str, command))} ended with status {status}")
        cost.seconds += time.monotonic() - started
        cost.cpu += _cpu_of_children() - cpu
    return cost


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _watch(process: psutil.Process, cost: Cost) -> None:
    while True:
        try:
            processes = [process, *process.children(recursive=True)]
            if process.status() == psutil.STATUS_ZOMBIE:
                return
        except psutil.NoSuchProcess:
            return
        memory = 0
        for each in processes:
            try:
                memory += each.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        cost.peak = max(cost.peak, memory)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
