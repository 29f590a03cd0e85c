"""Put the provenance of every downloaded corpus of a configuration into one file.

Example:
    python scripts/collect_provenance.py --input data/wmt14/raw/provenance.json \\
        data/ptb/raw/provenance.json --output results/paper/provenance.json

Inputs: provenance.json of each corpus, as fetch_corpus.py writes it.
Output: one JSON object, each corpus by its name.
"""

import argparse
import json
from pathlib import Path

from onmt_define.errors import exit_on_user_error


def main() -> None:
    """Parse the command line and collect."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", required=True, nargs="+", type=Path, help="provenance.json")
    parser.add_argument("--output", required=True, help="JSON file to write")
    arguments = parser.parse_args()
    with exit_on_user_error():
        from onmt_define.files import complete_or_absent

        each = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.input]
        with complete_or_absent(arguments.output) as path:
            collected = {provenance["corpus"]: provenance for provenance in each}
            path.write_text(json.dumps(collected, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
