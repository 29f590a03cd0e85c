"""Runs a command of OpenNMT-py as if onmt_define had never been installed.

Usage: python -I -S stock_alone.py SITE_PACKAGES MODULE [options], with -S so that no start-up file
runs. Two things are made up for: stock OpenNMT-py can't load its own checkpoints under torch 2.6
and newer, and it imports four packages that it hardly uses.
"""

import argparse
import importlib
import importlib.util
import sys
from unittest.mock import MagicMock

sys.path.append(sys.argv.pop(1))
sys.modules["onmt_define"] = None  # an import fails as it does without the package
for package in ("ahocorasick", "fasttext", "rapidfuzz", "spacy"):
    if importlib.util.find_spec(package) is None:
        sys.modules[package] = MagicMock()

import torch  # noqa: E402

torch.serialization.add_safe_globals([argparse.Namespace])
importlib.import_module(sys.argv.pop(1)).main()
