"""The report over made-up result trees: what it says, and how it copes with gaps."""

import csv
import json
import math
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from onmt_define.errors import UserError
from onmt_define.report import tables
from onmt_define.report.page import (
    format_count,
    format_duration,
    remarks,
    summary,
    write_report,
)
from onmt_define.report.records import Results, read_config, read_results

ROOT = Path(__file__).parents[1]
EMBEDDINGS = {
    "standard": {"type": "standard", "output_dim": 128},
    "projective": {"type": "projective", "map_dim": 64, "output_dim": 128},
    "define": {
        "type": "define",
        "map_dim": 64,
        "expand_dim": 256,
        "output_dim": 128,
        "depth": 3,
        "groups": [4, 2, 1],
    },
}
VERSIONS = {"python": "3.11.7", "torch": "2.13.0", "OpenNMT-py": "3.5.1", "onmt_define": "0.1.0"}
BLEU_SIGNATURE = "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1"
CHRF_SIGNATURE = "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.5.1"
SIZES = {"standard": 1_600_000, "projective": 1_350_000, "define": 1_216_000}
BLEU = {"standard": 88.0, "projective": 86.5, "define": 87.1}


def kind_of(run: str) -> str:
    return next((kind for kind in SIZES if kind in run), "standard")


def translation_record(run: str, seed: int) -> dict:
    kind = kind_of(run)
    parts = {
        "source embedding": SIZES[kind] // 8,
        "target embedding": SIZES[kind] // 8,
        "encoder": SIZES[kind] // 4,
        "decoder": SIZES[kind] // 4,
        "generator": SIZES[kind] // 4,
    }
    shift = 1 + (sum(map(ord, run)) % 13) / 20
    steps = range(50, 1501, 50)
    return {
        "kind": "translation",
        "run": run,
        "seed": seed,
        "corpus": "demo",
        "embedding": EMBEDDINGS[kind],
        "parameters": {**parts, "total": sum(parts.values())},
        "vocabulary": {"source": 2104, "target": 2210},
        "steps": 1500,
        "model_step": 1250,
        "seconds": 151.2 if kind == "define" else 130.0,
        "device": "CPU, 1 thread",
        "tries": [{"from_step": 0}, {"from_step": 600}] if kind == "define" else [{"from_step": 0}],
        "tokens_per_second": {"source": 5200.1, "target": 5300.0},
        "learning_curve": [
            {
                "step": step,
                "train_perplexity": 1 + 900 * shift * math.exp(-step / 180),
                "train_accuracy": 100 * (1 - math.exp(-step / 400)),
                "learning_rate": 0.001,
                "tokens_per_second": 5100,
                "seconds": step / 10,
            }
            for step in steps
        ],
        "validation": [
            {"step": step, "perplexity": 1.3 * shift + 40 * math.exp(-step / 200), "accuracy": 77.1}
            for step in range(250, 1501, 250)
        ],
        "versions": VERSIONS,
    }


def score(run: str, seed: int, test_set: str) -> dict:
    bleu = BLEU[kind_of(run)] + 0.4 * (seed - 1)
    return {
        "test_set": test_set,
        "lines": 500,
        "BLEU": bleu,
        "signature": BLEU_SIGNATURE,
        "interval": [bleu - 1.2, bleu + 1.1],
        "chrF": bleu + 3,
        "chrF_signature": CHRF_SIGNATURE,
    }


def language_model_record(run: str, seed: int) -> dict:
    kind = kind_of(run)
    small = kind == "define"
    return {
        "kind": "language model",
        "run": run,
        "seed": seed,
        "corpus": "demo",
        "model": "lstm",
        "embedding": EMBEDDINGS[kind],
        "parameters": {
            "embedding": 120_000 if small else 256_000,
            "context": 264_000,
            "output": 128_000,
            "total": 512_000 if small else 648_000,
        },
        "vocabulary": 2000,
        "steps": 900,
        "epochs": 2,
        "seconds": 30.1,
        "device": "CPU, 1 thread",
        "tries": [{"from_step": 0}],
        "tokens_per_second": 12000.0,
        "learning_curve": [
            {"step": step, "train_perplexity": 33 + 400 * math.exp(-step / 150) + 2 * small}
            for step in range(50, 901, 50)
        ],
        "validation": [
            {"step": 450, "epoch": 1, "perplexity": 40.2 + small},
            {"step": 900, "epoch": 2, "perplexity": 35.1 + small},
        ],
        "perplexity": {"valid": 35.1 + small, "test": 36.0 + small},
        "tokens": {"train": 90_000, "valid": 5_000, "test": 5_100},
        "versions": VERSIONS,
    }


def make_config(runs, language_models=(), seeds=(1,), test_sets=("test",)) -> dict:
    config = {
        "name": "demo",
        "source_language": "en",
        "target_language": "de",
        "corpus": {"name": "demo", "sentences": 20000},
        "test_sets": list(test_sets),
        "translation": {
            "runs": [{"name": run, "seeds": list(seeds), "options": {"layers": 2}} for run in runs]
        },
    }
    if language_models:
        config["language_models"] = {
            "runs": [{"name": run, "seeds": list(seeds)} for run in language_models]
        }
    return config


def write_json(path: Path, content: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def make_tree(folder: Path, config: dict) -> Path:
    """The files that the config's runs leave; a test then breaks some of them."""
    for run in config["translation"]["runs"]:
        for seed in run["seeds"]:
            place = folder / "mt" / run["name"] / f"seed{seed}"
            write_json(place / "record.json", translation_record(run["name"], seed))
            for test_set in config["test_sets"]:
                write_json(place / f"{test_set}.score.json", score(run["name"], seed, test_set))
    for run in config.get("language_models", {}).get("runs", []):
        for seed in run["seeds"]:
            place = folder / "lm" / run["name"] / f"seed{seed}"
            write_json(place / "record.json", language_model_record(run["name"], seed))
    return folder


def change(path: Path, **fields) -> None:
    write_json(path, {**json.loads(path.read_text(encoding="utf-8")), **fields})


def read_csv(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows_of(table: tables.Table) -> list[dict]:
    return [row.cells for row in table.rows]


def plain(text: str) -> str:
    """The text with spaces that may break, as a test writes them."""
    return text.replace("\u00a0", " ")


class Page(HTMLParser):
    """Checks that tags nest; collects text, attributes and what the page would load."""

    VOID = ("meta", "link", "img", "br", "hr", "input", "col")

    def __init__(self, html: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name == "href" and tag == "a":
                self.links.append(value)
            elif name in ("src", "srcset", "href", "data", "poster", "action"):
                self.loaded.append(value)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += plain(data)


def check_page(page: Path) -> Page:
    """Parse the page and check that it loads nothing from anywhere and its links lead somewhere."""
    html = page.read_text(encoding="utf-8")
    parsed = Page(html)
    assert "script" not in parsed.tags
    assert all(source.startswith("data:image/svg+xml;base64,") for source in parsed.loaded)
    assert "@import" not in html
    assert "url(" not in html
    for link in parsed.links:
        if link.startswith("#"):
            assert f'id="{link[1:]}"' in html
        else:
            assert (page.parent / link).is_file()
    return parsed


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> tuple[Results, Path]:
    folder = tmp_path_factory.mktemp("results") / "demo"
    config = make_config(["standard", "define"], ["lstm-standard", "lstm-define"])
    results = read_results(config, make_tree(folder, config))
    provenance = folder / "provenance.json"
    write_json(provenance, {"source": "made up", "license": "CC0", "lines": {"train": 20000}})
    return results, write_report(results, folder / "report", [provenance])


def test_page_holds_the_results(demo):
    results, page = demo
    parsed = check_page(page)
    assert results.missing == ()
    assert parsed.tags.count("img") == 9
    assert "1,216,000" in parsed.text
    assert "2 min 31 s" in parsed.text
    assert "36.00" in parsed.text
    assert BLEU_SIGNATURE in parsed.text
    assert CHRF_SIGNATURE in parsed.text
    assert "2, resumed from step 600" in parsed.text
    assert "license: CC0" in parsed.text
    assert "sentences: 20000" in parsed.text
    assert "OpenNMT-py 3.5.1" in parsed.text
    assert '<a href="#missing">' not in page.read_text(encoding="utf-8")
    assert "<title>demo</title>" in page.read_text(encoding="utf-8")


def test_summary_compares_with_the_first_run(demo):
    sentences = [plain(sentence) for sentence in summary(demo[0], [])]
    assert sentences[0] == (
        "This report covers 2 translation runs (en to de, corpus demo, 1 seed each) "
        "and 2 language models (1 seed each)."
    )
    assert sentences[1].startswith(
        "define reached BLEU 87.1 on test with 1.2 million parameters, "
        "24 % fewer than standard (88.0, 1.6 million). Their"
    )
    assert "85.9 to 88.2 for define and 86.8 to 89.1 for standard, overlap." in sentences[1]
    assert "lstm-define reached test perplexity 37.00 with 512 thousand" in sentences[2]
    assert sentences[-1] == "Every expected result is there."


def test_tables_in_full_precision(demo):
    folder = demo[1].parent / "tables"
    standard, define = read_csv(folder / "translation.csv")
    assert (standard["n"], standard["groups"], standard["m"]) == ("", "", "128")
    assert (define["n"], define["k"], define["m"], define["N"]) == ("64", "256", "128", "3")
    assert define["groups"] == "4, 2, 1"
    assert define["BLEU test"] == "87.1"
    assert float(define["BLEU test bootstrap interval low"]) == pytest.approx(85.9)
    assert float(define["BLEU test bootstrap interval high"]) == pytest.approx(88.2)
    assert define["training time (s)"] == "151.2"
    assert define["generator parameters"] == "304000"
    assert define["total parameters"] == "1216000"
    relative = "total parameters relative to the first run (%)"
    assert float(standard[relative]) == 0
    assert float(define[relative]) == pytest.approx(-24)
    assert [row["runs"] for row in read_csv(folder / "signatures.csv")] == ["all", "all"]
    assert read_csv(folder / "language_models.csv")[1]["test perplexity"] == "37.0"
    validation = read_csv(folder / "validation.csv")
    assert len(validation) == 2 * 6 + 2 * 2
    assert validation[0]["epoch"] == ""
    assert validation[-1]["epoch"] == "2"
    assert len(read_csv(folder / "learning_curve.csv")) == 2 * 30 + 2 * 18


def test_figures_are_narrow(demo):
    from PIL import Image

    for path in (demo[1].parent / "figures").glob("*.png"):
        with Image.open(path) as image:
            assert 600 <= image.width <= 900


def test_missing_run_and_no_language_models(tmp_path):
    config = make_config(["standard", "define"])
    folder = make_tree(tmp_path / "demo", config)
    shutil.rmtree(folder / "mt" / "define")
    results = read_results(config, folder)
    assert [(one.path, one.reason) for one in results.missing] == [
        ("mt/define/seed1/record.json", "file not found"),
        ("mt/define/seed1/test.score.json", "file not found"),
    ]
    absent = tmp_path / "absent.json"
    page = write_report(results, tmp_path / "report", [absent])
    parsed = check_page(page)
    assert "mt/define/seed1/record.json: file not found" in parsed.text
    assert f"{absent}: file not found" in parsed.text
    assert "3 results are missing" in parsed.text
    assert 'id="language-models"' not in page.read_text(encoding="utf-8")
    assert not (page.parent / "tables" / "language_models.csv").exists()
    define = read_csv(page.parent / "tables" / "translation.csv")[1]
    given = {key: value for key, value in define.items() if value != "missing"}
    assert given == {"run": "define", "seed": "1"}


def test_missing_first_run_leaves_others_without_relative_size(tmp_path):
    config = make_config(["standard", "define"])
    folder = make_tree(tmp_path / "demo", config)
    shutil.rmtree(folder / "mt" / "standard")
    results = read_results(config, folder)
    define = rows_of(tables.translation_table(results))[1]
    assert define["relative"] == "missing"
    assert define["total parameters"] == 1_216_000
    assert plain(summary(results, results.missing)[1]) == (
        "define reached BLEU 87.1 on test with 1.2 million parameters; "
        "the first run is standard (missing, missing)."
    )


def test_comet_has_a_column_only_where_it_scored(tmp_path):
    config = make_config(["standard", "define"])
    folder = make_tree(tmp_path / "demo", config)
    results = read_results(config, folder)
    keys = [column.key for column in tables.translation_table(results).columns]
    assert "COMET test" not in keys
    for run, value in (("standard", 0.8123), ("define", 0.8234)):
        comet = {"model": "Unbabel/wmt22-comet-da", "score": value}
        change(folder / f"mt/{run}/seed1/test.score.json", COMET=comet)
    page = write_report(read_results(config, folder), tmp_path / "report")
    parsed = check_page(page)
    assert "COMET test, Unbabel/wmt22-comet-da" in parsed.text
    assert "0.823" in parsed.text
    rows = read_csv(page.parent / "tables" / "translation.csv")
    column = "COMET test, Unbabel/wmt22-comet-da"
    assert [row[column] for row in rows] == ["0.8123", "0.8234"]


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "87.1", True, [87.1], 10**400])
def test_what_is_no_finite_number_is_missing(tmp_path, value):
    config = make_config(["standard", "define"])
    folder = make_tree(tmp_path / "demo", config)
    change(folder / "mt/define/seed1/test.score.json", BLEU=value)
    results = read_results(config, folder)
    assert [one.path for one in results.missing] == ["mt/define/seed1/test.score.json"]
    assert results.missing[0].reason.startswith("BLEU: expected a finite number, found ")
    define = rows_of(tables.translation_table(results))[1]
    assert define["BLEU test"] == "missing"
    assert define["chrF test"] == pytest.approx(90.1)


def test_nan_metrics_make_a_whole_page(tmp_path):
    config = make_config(["standard", "define"])
    folder = make_tree(tmp_path / "demo", config)
    for run in ("standard", "define"):
        change(folder / f"mt/{run}/seed1/test.score.json", BLEU=math.nan)
    record = translation_record("define", 1)
    record["validation"][2]["perplexity"] = math.nan
    change(folder / "mt/define/seed1/record.json", validation=record["validation"], seconds=None)
    results = read_results(config, folder)
    reasons = {one.reason for one in results.missing}
    assert "validation: 1 of 6 points have no finite perplexity" in reasons
    assert "seconds: expected a finite number, found nothing" in reasons
    page = write_report(results, tmp_path / "report")
    assert "standard has no BLEU on test (missing)" in check_page(page).text
    assert "nan" not in (page.parent / "tables" / "translation.csv").read_text().lower()
    validation = read_csv(page.parent / "tables" / "validation.csv")
    assert [row["validation perplexity"] for row in validation].count("missing") == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"kind": "translation", "ru', "file is not complete JSON (line 1"),
        (b"", "file is not complete JSON"),
        (b"[1, 2]", "file holds no JSON object"),
        (b"\xff\xfe{}", "file is not UTF-8 text"),
        (b'{"kind": "language model"}', "file is of another run: kind is 'language model'"),
        (
            b'{"kind": "translation", "run": "standard", "seed": 1}',
            "file is of another run: run is 'standard', not 'define'",
        ),
    ],
)
def test_unreadable_record_is_missing_as_a_whole(tmp_path, content, reason):
    config = make_config(["standard", "define"])
    folder = make_tree(tmp_path / "demo", config)
    (folder / "mt/define/seed1/record.json").write_bytes(content)
    results = read_results(config, folder)
    assert len(results.missing) == 1
    assert results.missing[0].reason.startswith(reason)
    assert rows_of(tables.translation_table(results))[1]["steps"] == "missing"
    assert rows_of(tables.translation_table(results))[1]["BLEU test"] == 87.1


def test_a_record_that_does_not_say_which_checkpoint_is_the_model_means_the_last(tmp_path):
    config = make_config(["standard"])
    folder = make_tree(tmp_path / "demo", config)
    path = folder / "mt/standard/seed1/record.json"
    record = json.loads(path.read_text())
    del record["model_step"]
    path.write_text(json.dumps(record))
    results = read_results(config, folder)
    assert not results.missing
    assert results.translation[0].model_step == record["steps"]


@pytest.mark.parametrize("wrong", [None, 3, "text", [], [3], {}, {"total": "many"}])
def test_no_field_of_a_wrong_type_stops_the_reading(tmp_path, wrong):
    config = make_config(["standard"], ["lstm-standard"])
    folder = make_tree(tmp_path / "demo", config)
    for kind in ("mt/standard", "lm/lstm-standard"):
        path = folder / kind / "seed1" / "record.json"
        record = json.loads(path.read_text())
        identity = {key: record[key] for key in ("kind", "run", "seed")}
        write_json(path, {**dict.fromkeys(record, wrong), **identity})
    results = read_results(config, folder)
    for make in (
        tables.translation_table,
        tables.language_model_table,
        tables.learning_curve_table,
        tables.validation_table,
    ):
        make(results)
    summary(results, results.missing)
    for run in (*results.translation, *results.language_models):
        assert run.parameters["total"] is None
        assert run.embedding is None
        assert run.tries is None


def test_thirty_runs_whose_names_are_text_and_nothing_else(tmp_path):
    runs = ["_standard <b>", "größe & <script>alert('define')<!script> $n$ _2"]
    runs += [f"transformer-base-{'define' if i % 2 else 'standard'}-n{i}" for i in range(28)]
    config = make_config(runs)
    page = write_report(read_results(config, make_tree(tmp_path / "demo", config)), tmp_path / "r")
    parsed = check_page(page)
    assert "<b>" not in page.read_text(encoding="utf-8")
    assert all(parsed.text.count(run) >= 3 for run in runs)
    assert [row["run"] for row in read_csv(page.parent / "tables" / "translation.csv")] == runs


def test_without_translation(tmp_path):
    config = make_config(["standard"], ["lstm-standard", "lstm-define"])
    folder = make_tree(tmp_path / "demo", config)
    config = {key: config[key] for key in ("name", "language_models")}
    page = write_report(read_results(config, folder), tmp_path / "report")
    parsed = check_page(page)
    assert "chrF" not in parsed.text
    assert 'id="translation"' not in page.read_text(encoding="utf-8")
    assert "lstm-define reached" in parsed.text
    assert parsed.tags.count("img") == 4


def test_several_seeds_have_a_mean(tmp_path):
    config = make_config(["standard", "define"], seeds=(1, 2, 3))
    folder = make_tree(tmp_path / "demo", config)
    (folder / "mt/define/seed3/test.score.json").unlink()
    results = read_results(config, folder)
    rows = rows_of(tables.translation_table(results))
    assert [row["seed"] for row in rows] == [1, 2, 3, "mean of 3", 1, 2, 3, "mean of 2 of 3"]
    assert rows[3]["BLEU test"] == pytest.approx(88.4)
    assert rows[3]["deviation BLEU test"] == pytest.approx(0.4)
    assert rows[3]["total parameters"] == 1_600_000
    assert rows[7]["BLEU test"] == pytest.approx((87.1 + 87.5) / 2)
    sentence = summary(results, results.missing)[1]
    assert sentence.startswith("define reached BLEU 87.3 on test (mean of 2 of 3 seeds) with")


def test_signatures_that_differ_are_told(tmp_path):
    config = make_config(["standard", "define"])
    folder = make_tree(tmp_path / "demo", config)
    change(folder / "mt/define/seed1/test.score.json", signature="nrefs:1|tok:none")
    results = read_results(config, folder)
    assert remarks(results) == ["The BLEU signatures on test differ: don't compare scores."]
    found = {row["signature"]: row["runs"] for row in rows_of(tables.signature_table(results))}
    assert found["nrefs:1|tok:none"] == "define"
    assert found[BLEU_SIGNATURE] == "standard"


def test_score_without_bootstrap_is_complete(tmp_path):
    config = make_config(["standard", "define"])
    folder = make_tree(tmp_path / "demo", config)
    change(folder / "mt/define/seed1/test.score.json", interval=None)
    results = read_results(config, folder)
    assert results.missing == ()
    assert rows_of(tables.translation_table(results))[1]["interval test"] == ""
    assert not any("bootstrap" in sentence for sentence in summary(results, ()))


LEASES = """\
time\tevent\tjob\tindices\tgpus\thost\tprocess
2026-01-01T10:00:00.000+00:00\ttaken\tstandard seed1\t0\tGPU-a\tone\t11
2026-01-01T10:00:10.000+00:00\ttaken\tdefine seed1\t1,2\tGPU-b,GPU-c\tone\t12
2026-01-01T10:05:00.000+00:00\treleased\tstandard seed1\t0\tGPU-a\tone\t11
2026-01-01T10:06:00.000+00:00\ttaken\tdefine seed1\t0,1\tGPU-a,GPU-b\tone\t13
half a li
2026-01-01T10:09:00.000+00:00\treleased\tdefine seed1\t0,1\tGPU-a,GPU-b\tone\t13
2026-01-01T10:10:00.000+00:00\ttaken\ttranslate define\t3\tGPU-d\tone\t14
"""


def test_cost_of_what_ran_on_gpus(tmp_path):
    config = make_config(["standard", "define"])
    make_tree(tmp_path, config)
    use = {"utilisation": 93.25, "peak_memory_mib": 20480.0, "kwh": 1.23456}
    change(tmp_path / "mt/define/seed1/record.json", gpu_use=use, device="2 x NVIDIA H100")
    change(tmp_path / "mt/standard/seed1/record.json", gpu_use=None)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "gpus.tsv").write_text(LEASES)
    results = read_results(config, tmp_path)
    assert not results.missing
    start = results.holdings[0].start
    assert [
        (one.job, one.gpu, one.start - start, one.end - start, one.released)
        for one in results.holdings
    ] == [
        ("standard seed1", "GPU 0", 0, 300, True),
        # Killed: its next try is what is known of its end.
        ("define seed1", "GPU 1", 10, 360, False),
        ("define seed1", "GPU 2", 10, 360, False),
        ("define seed1", "GPU 0", 360, 540, True),
        ("define seed1", "GPU 1", 360, 540, True),
        ("translate define", "GPU 3", 600, 600, False),
    ]
    page = write_report(results, tmp_path / "report")
    text = check_page(page).text
    assert "Which job held which GPU, over time; × marks a job that was killed." in text
    assert "93.2" in text
    assert "20,480" in text
    assert "1.235" in text
    standard, define = read_csv(tmp_path / "report" / "tables" / "cost.csv")
    assert define["energy of the GPUs (kWh)"] == "1.23456"
    assert float(define["GPU time (GPU-hours)"]) == pytest.approx(2 * 151.2 / 3600)
    assert define["training speed (tokens/s)"] == "5300.0"
    assert standard["GPU time (GPU-hours)"] == standard["energy of the GPUs (kWh)"] == ""
    assert (tmp_path / "report" / "figures" / "gpus.svg").exists()


def test_cost_on_the_cpu_is_time_speed_and_memory(tmp_path):
    config = make_config(["standard"], ["lstm-define"])
    make_tree(tmp_path, config)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/train_standard_seed1.tsv").write_text("s\tmax_rss\n130.1\t665.25\n")
    (tmp_path / "benchmarks/train_lm_lstm-define_seed1.tsv").write_text("s\tmax_rss\n30.1\tNA\n")
    write_report(read_results(config, tmp_path), tmp_path / "report")
    standard, lstm = read_csv(tmp_path / "report/tables/cost.csv")
    memory = "peak memory of the machine (MiB)"
    assert (standard[memory], lstm[memory]) == ("665.25", "")
    assert standard["training time (s)"] == "130.0"
    assert lstm["training speed (tokens/s)"] == "12000.0"


def test_significance_and_averaged_checkpoints(tmp_path):
    config = make_config(["standard", "projective", "define"])
    config["translation"]["averaging"] = 5
    make_tree(tmp_path, config)
    tested = {"run": "projective", "seed": 1, "BLEU": {"difference": 0.6, "p_value": 0.0123}}
    against_standard = {**tested, "run": "standard", "BLEU": {"p_value": 0.25}}
    for run in ("standard", "projective", "define"):
        place = tmp_path / f"mt/{run}/seed1"
        averaged = json.loads((place / "test.score.json").read_text())
        write_json(place / "test-averaged.score.json", {**averaged, "BLEU": 90.5})
    change(tmp_path / "mt/projective/seed1/test.score.json", baseline=against_standard)
    change(tmp_path / "mt/define/seed1/test.score.json", baseline=tested)
    broken = {**tested, "BLEU": {"p_value": None}}
    change(tmp_path / "mt/define/seed1/test-averaged.score.json", baseline=broken)
    results = read_results(config, tmp_path)
    assert [one.path for one in results.missing] == ["mt/define/seed1/test-averaged.score.json"]
    assert summary(results, [])[1].endswith(
        "In a paired bootstrap test against projective, p is 0.012."
    )
    page = check_page(write_report(results, tmp_path / "report"))
    assert "BLEU test, tested against" in page.text
    rows = read_csv(tmp_path / "report/tables/translation.csv")
    assert [(row["BLEU test, tested against"], row["BLEU test, p"]) for row in rows] == [
        ("", ""),
        ("standard", "0.25"),
        ("projective", "0.0123"),
    ]
    assert rows[-1]["BLEU test-averaged"] == "90.5"
    assert rows[-1]["BLEU test-averaged, tested against"] == "projective"
    assert rows[-1]["BLEU test-averaged, p"] == "missing"


def test_a_mean_over_seeds_was_tested_against_nothing(tmp_path):
    config = make_config(["standard", "define"], seeds=(1, 2))
    make_tree(tmp_path, config)
    for seed in (1, 2):
        tested = {"run": "standard", "seed": seed, "BLEU": {"p_value": 0.0123}}
        change(tmp_path / f"mt/define/seed{seed}/test.score.json", baseline=tested)
    *_, one, mean = rows_of(tables.translation_table(read_results(config, tmp_path)))
    assert (one["baseline test"], one["p test"]) == ("standard", 0.0123)
    assert (mean["baseline test"], mean["p test"]) == ("", "")


def test_what_repeats_a_row(demo):
    _, page = demo
    rows = read_csv(page.parent / "tables/trainings.csv")
    assert [row["Snakemake's target"] for row in rows][1::2] == [
        "results/demo/mt/define/seed1/record.json",
        "results/demo/lm/lstm-define/seed1/record.json",
    ]
    assert rows[1]["tries"] == "2, resumed from step 600"
    assert rows[1]["torch"] == "2.13.0"
    config = yaml.safe_load((page.parent / "config.yaml").read_text(encoding="utf-8"))
    assert config["name"] == "demo"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (30.14, "30.1 s"),
        (59.99, "1 min 00 s"),
        (151.2, "2 min 31 s"),
        (3599.7, "1 h 00 min"),
        (11_100, "3 h 05 min"),
        (187_200, "2 d 04 h"),
    ],
)
def test_durations(seconds, text):
    assert plain(format_duration(seconds)) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (512, "512"),
        (34_560, "34.6 thousand"),
        (999_960, "1.0 million"),
        (1_216_000, "1.2 million"),
        (165_200_000, "165 million"),
    ],
)
def test_counts(count, text):
    assert plain(format_count(count)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "line 2: not valid YAML"),
        ("title: demo", "has no `name`"),
        ("name: demo\ntranslation: {runs: [{name: a}]}", r"translation.runs\[0\] must have"),
        ("name: demo\ntranslation: {runs: [{name: a, seeds: [1]}]}", "has no `test_sets`"),
    ],
)
def test_mistakes_in_the_config_are_one_sentence(tmp_path, text, message):
    path = tmp_path / "config.yaml"
    path.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_config(path)


def run_script(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / "make_report.py", *map(str, arguments)],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )


def test_script_makes_the_same_files_again(demo, tmp_path):
    results, page = demo
    folder = page.parents[1]
    path = tmp_path / "config with spaces.yaml"
    path.write_text(yaml.safe_dump(results.config, sort_keys=False), encoding="utf-8")
    arguments = ["--config", path, "--results", folder, "--output", tmp_path / "a report"]
    result = run_script(*arguments, "--provenance", folder / "provenance.json")
    assert result.returncode == 0, result.stderr
    again = Path(result.stdout.split("\n")[-2])
    assert again == tmp_path / "a report" / "index.html"
    files = sorted(path.relative_to(page.parent) for path in page.parent.rglob("*.*"))
    assert len(files) == 2 + 3 * (8 + 13) + 2 * 9
    for file in files:
        assert (page.parent / file).read_bytes() == (again.parent / file).read_bytes(), file


def test_script_names_a_results_folder_that_is_not_there(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(make_config(["standard"])), encoding="utf-8")
    result = run_script("--config", path, "--results", tmp_path / "no", "--output", tmp_path / "r")
    assert result.returncode == 2
    assert "no such folder" in result.stderr
    assert "Traceback" not in result.stderr


CHROMIUM = Path("/usr/bin/chromium")


def chromium(profile: Path, *arguments: str) -> subprocess.CompletedProcess:
    switches = "headless no-sandbox disable-gpu disable-background-networking disable-sync"
    switches += " disable-component-update no-first-run hide-scrollbars enable-logging=stderr"
    return subprocess.run(
        [
            CHROMIUM,
            *(f"--{switch}" for switch in switches.split(" ")),
            f"--user-data-dir={profile}",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM.exists(), reason="needs /usr/bin/chromium")
def test_browser_shows_every_image_without_complaint(demo, tmp_path):
    """A probe page opens the report in a frame as wide as a phone and writes down what it finds."""
    page = demo[1]
    probe = page.parent / "probe.html"
    probe.write_text(
        f"""<!DOCTYPE html><body><iframe width=390 height=800 src="{page.name}"></iframe><pre></pre>
        <script>
        document.querySelector("iframe").onload = async function () {{
          const inside = this.contentDocument, images = [...inside.images];
          await Promise.all(images.map(image => image.decode()));
          document.querySelector("pre").textContent = JSON.stringify({{
            widths: images.map(image => image.naturalWidth),
            tables: [...inside.querySelectorAll("table")].map(table => table.rows.length),
            page: inside.documentElement.scrollWidth, frame: inside.documentElement.clientWidth}});
        }};
        </script></body>""",
        encoding="utf-8",
    )
    switches = ("--allow-file-access-from-files", "--virtual-time-budget=10000", "--dump-dom")
    result = chromium(tmp_path / "profile", *switches, probe.as_uri())
    probe.unlink()
    assert "CONSOLE" not in result.stderr, result.stderr
    found = json.loads(result.stdout.split("<pre>")[1].split("</pre>")[0])
    assert len(found["widths"]) == 9
    assert min(found["widths"]) > 0
    assert len(found["tables"]) == 8 + 13  # ours, and the paper's
    assert min(found["tables"]) > 1
    assert found["page"] <= found["frame"], "the page itself scrolls sideways"
