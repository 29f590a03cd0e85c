"""Read what the runs of one config left under results/{name}/.

The config says which files to expect; whatever is absent, unreadable or not a finite number is read
as None and listed as `Missing` with its reason, so that a report never fails and never guesses.
"""

import csv
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from onmt_define.errors import UserError
from onmt_define.report.holdings import Holding, read_holdings

TRANSLATION_PARTS = ("source embedding", "target embedding", "encoder", "decoder", "generator")
AVERAGED = "-averaged"  # what the scores of averaged checkpoints end in
LANGUAGE_MODEL_PARTS = ("embedding", "context", "output")

Point = dict[str, float | None]


@dataclass(frozen=True)
class Missing:
    """Something the report expected: the file (below the results folder) and why it is missing."""

    path: str
    reason: str


@dataclass(frozen=True)
class Embedding:
    """An input layer's type and sizes; a size that the type doesn't have is None."""

    type: str
    map_dim: int | None = None
    expand_dim: int | None = None
    output_dim: int | None = None
    depth: int | None = None
    groups: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Score:
    """BLEU and chrF (both 0 to 100) of one run on one test set; None where missing.

    `baseline` is the run that its BLEU was tested against, `p_value` the result of that (paired
    bootstrap): how often chance alone makes such a difference. None where nothing was tested.
    """

    lines: int | None
    bleu: float | None
    interval: tuple[float, float] | None
    signature: str | None
    chrf: float | None
    chrf_signature: str | None
    baseline: str | None = None
    p_value: float | None = None
    comet: float | None = None
    comet_model: str | None = None


@dataclass(frozen=True)
class GpuUse:
    """Mean utilisation in percent, peak memory of one GPU, energy of all; None where unknown."""

    utilisation: float | None
    peak_memory_mib: float | None
    kwh: float | None


@dataclass(frozen=True, kw_only=True)
class Run(ABC):
    """What both kinds of run record; None (or an empty collection) stands for missing.

    `parameters` counts disjoint parts and their "total"; `seconds` is the training time;
    `tries` holds the step that each try started from; `gpu_use` is None without GPUs;
    `peak_memory_mib` is what the training's processes held in the machine's own memory.
    """

    name: str
    seed: int
    corpus: str | None
    embedding: Embedding | None
    parameters: dict[str, int | None]
    steps: int | None
    seconds: float | None
    device: str | None
    tries: tuple[int, ...] | None
    gpu_use: GpuUse | None
    peak_memory_mib: float | None
    learning_curve: tuple[Point, ...]
    validation: tuple[Point, ...]
    versions: dict[str, str]

    @property
    def gpus(self) -> int | None:
        """How many GPUs the training ran on, 0 for the CPU, as its device says: 2 x NVIDIA H100."""
        if self.device is None:
            return None
        return sum(int(count) for count in re.findall(r"(?:^|\+ )(\d+) x ", self.device))

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether the scores that matter are there, so that it counts in a mean over seeds."""


@dataclass(frozen=True, kw_only=True)
class TranslationRun(Run):
    """One training of a translation model and its score on each test set.

    `model_step` is the step of the checkpoint that was translated with: the best in validation.
    """

    model_step: int | None
    vocabulary: dict[str, int | None]
    tokens_per_second: dict[str, float | None]
    scores: dict[str, Score]

    @property
    def complete(self) -> bool:
        return all(score.bleu is not None for score in self.scores.values())


@dataclass(frozen=True, kw_only=True)
class LanguageModelRun(Run):
    """One training of a language model and its perplexity on the valid and test split."""

    model: str | None
    vocabulary: int | None
    epochs: int | None
    tokens_per_second: float | None
    perplexity: dict[str, float | None]
    tokens: dict[str, int | None]

    @property
    def complete(self) -> bool:
        return self.perplexity["test"] is not None


@dataclass(frozen=True)
class Results:
    """All runs of a config in its order, seeds of a run side by side, and what is missing.

    `holdings` says when their jobs held which GPU.
    """

    config: dict[str, Any]
    translation: tuple[TranslationRun, ...]
    language_models: tuple[LanguageModelRun, ...]
    missing: tuple[Missing, ...]
    holdings: tuple[Holding, ...] = ()

    @property
    def name(self) -> str:
        return str(self.config["name"])

    @property
    def test_sets(self) -> tuple[str, ...]:
        """Those of the best checkpoint, then, if asked for, the same of averaged checkpoints."""
        return _scored_sets(self.config) if self.translation else ()


def _scored_sets(config: Mapping[str, Any]) -> tuple[str, ...]:
    names = tuple(map(str, config["test_sets"]))
    averaged = (config.get("translation") or {}).get("averaging")
    return (*names, *(f"{name}{AVERAGED}" for name in names)) if averaged else names


def read_config(path: str | Path) -> dict[str, Any]:
    """Load the resolved config; raise `UserError` where the report can't do without a key."""
    try:
        config = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}), expected a config in YAML"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise UserError(f"{path}{line}: not valid YAML, expected a config in YAML") from None
    if not isinstance(config, dict) or config.get("name") in (None, ""):
        raise UserError(f"{path}: has no `name`, expected a config with a name")
    for section in ("translation", "language_models"):
        for index, run in enumerate(_runs(config, section)):
            named = isinstance(run, dict) and "name" in run
            if not (named and (run.get("seeds") == [] or _are_integers(run.get("seeds")))):
                raise UserError(
                    f"{path}: {section}.runs[{index}] must have a `name` and `seeds`, "
                    "a list of whole numbers"
                )
    if _runs(config, "translation") and not isinstance(config.get("test_sets"), list):
        raise UserError(f"{path}: has no `test_sets`, expected a list of test set names")
    return config


def read_results(config: Mapping[str, Any], folder: str | Path) -> Results:
    """Read every run that `config` expects below `folder`, which is results/{name}.

    Raises `UserError` only if `folder` itself doesn't exist.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder, expected the results of the config's runs")
    missing = [
        Missing(f"{place}/{run['name']}", "its list of seeds is empty")
        for section, place in (("translation", "mt"), ("language_models", "lm"))
        for run in _runs(config, section)
        if not run["seeds"]
    ]
    translation = [
        _read_translation_run(folder, name, seed, _scored_sets(config), missing)
        for name, seed in _expected(config, "translation")
    ]
    language_models = [
        _read_language_model_run(folder, name, seed, missing)
        for name, seed in _expected(config, "language_models")
    ]
    holdings = read_holdings(folder / "logs" / "gpus.tsv")
    return Results(
        dict(config), tuple(translation), tuple(language_models), tuple(missing), holdings
    )


def read_json_object(path: Path) -> dict[str, Any]:
    """Load a JSON object; raise `ValueError` with the reason, in a few words, if there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError("file not found") from None
    except OSError as error:
        raise ValueError(f"file cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ValueError("file is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"file is not complete JSON (line {error.lineno}: {error.msg})") from None
    if not isinstance(data, dict):
        raise ValueError("file holds no JSON object")
    return data


def _runs(config: Mapping[str, Any], section: str) -> list[Any]:
    return (config.get(section) or {}).get("runs") or []


def _expected(config: Mapping[str, Any], section: str) -> list[tuple[str, int]]:
    return [(str(run["name"]), seed) for run in _runs(config, section) for seed in run["seeds"]]


def _are_integers(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(type(value) is int for value in values)


def _finite(value: Any) -> float | None:
    """`value` if it is a finite number (a bool is none), else None."""
    if type(value) not in (int, float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        return None


class _Fields:
    """One JSON file read field by field; a field that isn't as expected is noted and read as None.

    A file that can't be read at all is noted once, and its fields are None without further notes.
    """

    def __init__(self, folder: Path, name: str, identity: dict[str, Any], missing: list[Missing]):
        self._name = name
        self._missing = missing
        self._data: dict[str, Any] | None = None
        try:
            data = read_json_object(folder / name)
        except ValueError as error:
            self.note(str(error))
            return
        for key, expected in identity.items():
            if data.get(key) != expected:
                self.note(f"file is of another run: {key} is {data.get(key)!r}, not {expected!r}")
                return
        self._data = data

    def note(self, reason: str) -> None:
        self._missing.append(Missing(self._name, reason))

    def get(self, *keys: str) -> Any:
        value: Any = self._data
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def number(self, *keys: str) -> Any:
        return self._checked(keys, _finite(self.get(*keys)), "a finite number")

    def text(self, *keys: str) -> str | None:
        value = self.get(*keys)
        return self._checked(keys, value if isinstance(value, str) else None, "a text")

    def numbers(self, key: str, names: Sequence[str]) -> dict[str, Any]:
        return {name: self.number(key, name) for name in names}

    def _checked(self, keys: Sequence[str], value: Any, expected: str) -> Any:
        if value is None and self._data is not None:
            value_found = self.get(*keys)
            found = "nothing" if value_found is None else json.dumps(value_found)[:60]
            self.note(f"{', '.join(keys)}: expected {expected}, found {found}")
        return value

    def interval(self) -> tuple[float, float] | None:
        value = self.get("interval")
        if value is None:  # a score without a bootstrap is no mistake
            return None
        bounds = tuple(_finite(bound) for bound in value) if isinstance(value, list) else ()
        complete = len(bounds) == 2 and None not in bounds
        return self._checked(["interval"], bounds if complete else None, "two finite numbers")

    def significance(self) -> dict[str, Any]:
        """The paired test against another run, if there was one."""
        if self.get("baseline") is None:
            return {}
        return {
            "baseline": self.text("baseline", "run"),
            "p_value": self.number("baseline", "BLEU", "p_value"),
        }

    def comet(self) -> dict[str, Any]:
        """COMET's score and its model, where the configuration asks for them."""
        if self.get("COMET") is None:
            return {}
        return {"comet": self.number("COMET", "score"), "comet_model": self.text("COMET", "model")}

    def embedding(self) -> Embedding | None:
        fields = self.get("embedding")
        fields = dict(fields) if isinstance(fields, dict) else {}
        kind, groups = fields.get("type"), fields.get("groups")
        sizes = {
            name: fields[name]
            for name in ("map_dim", "expand_dim", "output_dim", "depth")
            if fields.get(name) is not None
        }
        valid = all(type(size) is int for size in sizes.values())
        valid = valid and (groups is None or _are_integers(groups))
        if not isinstance(kind, str) or not valid:
            return self._checked(["embedding"], None, "a type and whole-number sizes")
        return Embedding(kind, **sizes, groups=tuple(groups) if groups else None)

    def tries(self) -> tuple[int, ...] | None:
        tries = self.get("tries")
        tries = tries if isinstance(tries, list) else []
        steps = [one.get("from_step") if isinstance(one, dict) else None for one in tries]
        value = tuple(steps) if _are_integers(steps) else None
        return self._checked(["tries"], value, "a list of from_step")

    def gpu_use(self) -> GpuUse | None:
        use = self.get("gpu_use")
        if use is None:  # a training on the CPU
            return None
        if not isinstance(use, dict):
            return self._checked(["gpu_use"], None, "utilisation, peak_memory_mib and kwh")
        return GpuUse(*(_finite(use.get(key)) for key in ("utilisation", "peak_memory_mib", "kwh")))

    def versions(self) -> dict[str, str]:
        found = self.get("versions")
        found = found if isinstance(found, dict) else {}
        value = {key: str(version) for key, version in found.items()} or None
        return self._checked(["versions"], value, "names and versions") or {}

    def points(self, key: str, metric: str) -> tuple[Point, ...]:
        """The curve's points with a step; a value that isn't a finite number becomes None."""
        value = self.get(key)
        if not isinstance(value, list):
            self._checked([key], None, "a list of points")
            return ()
        points = [
            {name: _finite(number) for name, number in point.items()}
            for point in value
            if isinstance(point, dict) and _finite(point.get("step")) is not None
        ]
        bad = len(value) - sum(point.get(metric) is not None for point in points)
        if bad:
            self.note(f"{key}: {bad} of {len(value)} points have no finite {metric}")
        return tuple(points)


def _common(fields: _Fields, parts: Sequence[str], benchmark: Path) -> dict[str, Any]:
    return {
        "peak_memory_mib": _peak_memory(benchmark),
        "corpus": fields.text("corpus"),
        "embedding": fields.embedding(),
        "parameters": fields.numbers("parameters", (*parts, "total")),
        "steps": fields.number("steps"),
        "seconds": fields.number("seconds"),
        "device": fields.text("device"),
        "tries": fields.tries(),
        "gpu_use": fields.gpu_use(),
        "learning_curve": fields.points("learning_curve", "train_perplexity"),
        "validation": fields.points("validation", "perplexity"),
        "versions": fields.versions(),
    }


def _peak_memory(benchmark: Path) -> float | None:
    """What Snakemake measured of the last try; None where it left nothing."""
    try:
        with benchmark.open(encoding="utf-8", newline="") as file:
            (row,) = csv.DictReader(file, delimiter="\t")
        return _finite(float(row["max_rss"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_translation_run(
    folder: Path, name: str, seed: int, test_sets: Sequence[str], missing: list[Missing]
) -> TranslationRun:
    place = f"mt/{name}/seed{seed}"
    identity = {"kind": "translation", "run": name, "seed": seed}
    fields = _Fields(folder, f"{place}/record.json", identity, missing)
    return TranslationRun(
        name=name,
        seed=seed,
        **_common(fields, TRANSLATION_PARTS, folder / f"benchmarks/train_{name}_seed{seed}.tsv"),
        # Earlier versions didn't say: it was the last one.
        model_step=fields.number("steps" if fields.get("model_step") is None else "model_step"),
        vocabulary=fields.numbers("vocabulary", ("source", "target")),
        tokens_per_second=fields.numbers("tokens_per_second", ("source", "target")),
        scores={one: _read_score(folder, place, one, missing) for one in test_sets},
    )


def _read_score(folder: Path, place: str, test_set: str, missing: list[Missing]) -> Score:
    identity = {"test_set": test_set.removesuffix(AVERAGED)}
    fields = _Fields(folder, f"{place}/{test_set}.score.json", identity, missing)
    return Score(
        lines=fields.number("lines"),
        bleu=fields.number("BLEU"),
        interval=fields.interval(),
        signature=fields.text("signature"),
        chrf=fields.number("chrF"),
        chrf_signature=fields.text("chrF_signature"),
        **fields.significance(),
        **fields.comet(),
    )


def _read_language_model_run(
    folder: Path, name: str, seed: int, missing: list[Missing]
) -> LanguageModelRun:
    identity = {"kind": "language model", "run": name, "seed": seed}
    fields = _Fields(folder, f"lm/{name}/seed{seed}/record.json", identity, missing)
    return LanguageModelRun(
        name=name,
        seed=seed,
        **_common(
            fields, LANGUAGE_MODEL_PARTS, folder / f"benchmarks/train_lm_{name}_seed{seed}.tsv"
        ),
        model=fields.text("model"),
        vocabulary=fields.number("vocabulary"),
        epochs=fields.number("epochs"),
        tokens_per_second=fields.number("tokens_per_second"),
        perplexity=fields.numbers("perplexity", ("valid", "test")),
        tokens=fields.numbers("tokens", ("train", "valid", "test")),
    )
