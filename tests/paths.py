"""Where the tests find the repository, real text and the commands of this Python's environment."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXTS = ROOT.parent / "shared" / "data"  # may be missing; tests that need it skip with a reason
BIN = Path(sys.executable).parent
SPACE_IN_PATH = " " in str(BIN)
NO_JOBS = "Snakemake's plug-ins for clusters can't start a Python whose path has a space"
