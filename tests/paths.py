"""Where the tests find the repository and the commands of this Python's environment."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
