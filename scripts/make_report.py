"""Make the report of one config: a self-contained HTML page, CSV tables and pictures.

Example:
    python scripts/make_report.py --config results/demo/config.yaml --results results/demo \\
        --output results/demo/report

Inputs:
    --config      the resolved config: name, translation and language-model runs with their seeds,
                  test sets
    --results     the folder with mt/{run}/seed{seed}/ and lm/{run}/seed{seed}/; what is missing
                  there is listed in the report and fails nothing; what `onmt_define correlation`
                  (correlation/) and `onmt_define compress` (compressed*.pt) left there is shown
    --provenance  JSON files about the corpora: where they come from, counts (optional)

Outputs:
    OUTPUT/index.html, OUTPUT/tables/*.{csv,md,tex}, OUTPUT/figures/*.svg and *.png;
    the path of index.html is printed at the end
"""

import argparse
from pathlib import Path

from onmt_define.errors import exit_on_user_error
from onmt_define.report.records import read_config, read_results


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", required=True, type=Path, metavar="FILE")
    parser.add_argument("--results", required=True, type=Path, metavar="FOLDER")
    parser.add_argument("--output", required=True, type=Path, metavar="FOLDER")
    parser.add_argument("--provenance", nargs="*", default=[], type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    results = read_results(read_config(arguments.config), arguments.results)
    # imported here, so that --help and a mistaken path don't wait for matplotlib
    from onmt_define.report.page import write_report

    print(write_report(results, arguments.output, arguments.provenance, arguments.results))


if __name__ == "__main__":
    with exit_on_user_error():
        main()
