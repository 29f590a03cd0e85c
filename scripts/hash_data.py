"""Write the sha256 of each text that the trainings of a config read.

Example:
    python scripts/hash_data.py --output results/demo/data_hashes.json data/demo/raw/train.en

Output: a JSON object, size and sha256 by path.
"""

import argparse

from onmt_define.errors import exit_on_user_error
from onmt_define.workflow.data_hashes import write_hashes


def main() -> None:
    """Parse the command line and hash."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", required=True, help="JSON file to write")
    parser.add_argument("files", nargs="+", help="files to hash")
    arguments = parser.parse_args()
    with exit_on_user_error():
        write_hashes(arguments.files, arguments.output)


if __name__ == "__main__":
    main()
