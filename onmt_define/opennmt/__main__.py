"""`python -m onmt_define.opennmt train ...` is `onmt_train ...` of this Python, with the plug-in.

The workflow starts OpenNMT-py this way, so it neither depends on PATH nor on the start-up file.
"""

import sys
from importlib import import_module

import onmt_define.opennmt.startup  # noqa: F401

COMMANDS = ("average_models", "build_vocab", "release_model", "server", "train", "translate")


def main() -> None:
    """Run one stock command by its name without the prefix `onmt_`."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: python -m onmt_define.opennmt {{{','.join(COMMANDS)}}} [options]")
    command = sys.argv.pop(1)
    sys.argv[0] = f"onmt_{command}"
    import_module(f"onmt.bin.{command}").main()


if __name__ == "__main__":
    main()
