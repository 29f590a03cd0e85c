"""Write settings, given as JSON on standard input, to a YAML file.

Example:
    echo '{"beam_size": 4}' | python scripts/write_settings.py --output decoding.yaml

Input: a JSON object on standard input.
Output: the same as YAML, complete or not at all.
"""

import argparse
import json
import sys

import yaml

from onmt_define.errors import UserError, exit_on_user_error
from onmt_define.files import complete_or_absent


def main() -> None:
    """Parse the command line and write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", required=True, help="YAML file to write")
    arguments = parser.parse_args()
    with exit_on_user_error():
        try:
            settings = json.load(sys.stdin)
        except ValueError as error:
            raise UserError(f"standard input: {error}, expected JSON") from error
        with complete_or_absent(arguments.output) as temporary:
            text = yaml.safe_dump(settings, allow_unicode=True, sort_keys=False)
            temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
