"""Who holds something that others wait for: a run's folder or a GPU."""

import getpass
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from onmt_define.files import complete_or_absent


def this_process(**facts: Any) -> dict[str, Any]:
    """Host, process id, user and the time now, with further `facts`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may not know its user's name
        user = str(os.getuid())
    return {
        "host": socket.gethostname(),
        "process": os.getpid(),
        "user": user,
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        **facts,
    }


def describe(owner: dict[str, Any]) -> str:
    """An owner in words."""
    return (
        f"process {owner['process']} of {owner['user']} on {owner['host']}, since {owner['since']}"
    )


def write(owner: dict[str, Any], path: Path) -> None:
    """Write an owner's file, whole or not at all, for everybody to read."""
    with complete_or_absent(path) as temporary:
        temporary.write_text(json.dumps(owner), encoding="utf-8")
        temporary.chmod(0o644)


def read(path: Path) -> dict[str, Any] | None:
    """The owner that a file names; None if it is gone or not a whole one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
