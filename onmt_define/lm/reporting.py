"""Lines for whoever watches a training, from its first process alone."""

import logging
import os
import sys

logger = logging.getLogger(__name__)


def process_rank() -> int:
    """0 in the process that was started, more in those that Lightning added for further GPUs."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def is_first_process() -> bool:
    """Whether this is the process that was started."""
    return process_rank() == 0


def report(line: str) -> None:
    """Show a line, and keep it in the log."""
    if is_first_process():
        print(line, file=sys.stderr, flush=True)
        logger.info(line)


def send_lightning_to_log() -> None:
    """Leave Lightning's messages to the root logger; by itself it prints them on the terminal."""
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        lightning_logger = logging.getLogger(name)
        lightning_logger.handlers.clear()
        lightning_logger.propagate = True
