"""Lets the workflow take a miniature for WMT14, for the tests alone.

On PYTHONPATH, this file is imported at the start of every Python. The folder $MINIATURE_WMT14 holds
sources.yaml, which replaces the package's own, and md5.json, which replaces sacrebleu's checksums.
"""

import importlib.abc
import json
import os
import sys
from pathlib import Path


def _use_sources(module):
    module.SOURCES = Path(os.environ["MINIATURE_WMT14"]) / "sources.yaml"


def _use_checksums(module):
    checksums = Path(os.environ["MINIATURE_WMT14"]) / "md5.json"
    for name, md5 in json.loads(checksums.read_text()).items():
        module.DATASETS[name].md5 = [md5]


_CHANGES = {"onmt_define.workflow.sources": _use_sources, "sacrebleu.dataset": _use_checksums}


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name not in _CHANGES:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)))
        original = spec.loader.exec_module

        def exec_module(module):
            original(module)
            _CHANGES[name](module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
