"""Draw the validation perplexities that benchmarks/lm_evidence.py has written.

    python benchmarks/lm_curves.py docs/results/language_models_curves.csv --runs awd-lstm \\
        awd-lstm-define --output docs/results/language_models_ptb.svg
"""

import argparse
import csv
from pathlib import Path
from types import SimpleNamespace

from onmt_define.report.figures import Picture, draw_curves, write_picture


def main() -> None:
    """Write a picture, as SVG and PNG."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("curves", type=Path, help="a CSV file with run, step and perplexity")
    parser.add_argument("--runs", nargs="+", required=True, metavar="NAME")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.svg")
    arguments = parser.parse_args()
    points: dict[str, list[dict[str, float]]] = {}
    with open(arguments.curves, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            point = {"step": int(row["step"]), "perplexity": float(row["perplexity"])}
            points.setdefault(row["run"], []).append(point)
    if missing := [name for name in arguments.runs if name not in points]:
        parser.error(f"no run {missing[0]!r} in {arguments.curves}, only {', '.join(points)}")
    runs = [SimpleNamespace(name=name, validation=points[name]) for name in arguments.runs]
    picture = Picture(
        arguments.output.stem,
        section="",
        caption="",
        draw=lambda: draw_curves(runs, "validation", "perplexity", "Validation perplexity"),
    )
    write_picture(picture, arguments.output.parent)


if __name__ == "__main__":
    main()
