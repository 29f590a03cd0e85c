"""What benchmarks leave behind: a CSV file and the same as a table in Markdown."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write(path: Path, columns: Sequence[str], rows: list[dict[str, Any]]) -> None:
    """Write rows as CSV and print them."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(str(row[column]) for column in columns)} |")
