"""Makes the stock OpenNMT-py commands see the plug-in, in every process, without a wrapper.

`onmt_define.pth`, installed beside the package, imports this module at every Python start. It
registers an import hook and does nothing else: the standard library only, no torch. When one of
the modules named below is imported, the hook lets it load and then hands it to the patching module
beside its name. Spawned training workers start a new Python, so they pass through here as well.
"""

import importlib.machinery
import sys
import types
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

PATCHED_MODULES = dict.fromkeys(
    (
        "onmt.opts",
        "onmt.transforms",
        "onmt.utils.parse",
        "onmt.inference_engine",
        "onmt.inputters.dynamic_iterator",
        "onmt.model_builder",
        "onmt.modules.embeddings",
        "onmt.models.model",
        "onmt.models.model_saver",
        "onmt.train_single",
        "onmt.trainer",
        "onmt.translate.translation",
        "onmt.translate.translation_server",
        "onmt.translate.translator",
        "onmt.bin.average_models",
        "onmt.bin.build_vocab",
        "onmt.bin.release_model",
        "onmt.bin.server",
        "onmt.bin.train",
        "onmt.bin.translate",
    ),
    "onmt_define.opennmt.patches",
) | {"ctranslate2.converters.opennmt_py": "onmt_define.opennmt.converter_patch"}

# OpenNMT-py imports every transform it ships. These packages serve four that are seldom used
# (`clean`, `terminology`, `inlinetags`, `fuzzymatch`); where one isn't installed, the others work.
OPTIONAL_PACKAGES = {
    "onmt.transforms.clean": ("fasttext",),
    "onmt.transforms.fuzzymatch": ("rapidfuzz",),
    "onmt.transforms.inlinetags": ("ahocorasick",),
    "onmt.transforms.terminology": ("spacy", "ahocorasick"),
}


class _Placeholder(types.ModuleType):
    """Stands for a package that isn't installed; using it says which one to install."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _MissingAttribute(self.__name__)


class _MissingAttribute:
    def __init__(self, package: str) -> None:
        self._package = package

    def _refuse(self) -> None:
        raise ImportError(
            f"this OpenNMT-py transform needs the package {self._package!r}, which isn't installed"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self._refuse()

    def __getattr__(self, name: str) -> Any:
        self._refuse()


class _PatchingLoader:
    """Loads a module with its own loader, then patches it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        placeholders = _add_placeholders(OPTIONAL_PACKAGES.get(module.__name__, ()))
        try:
            self._loader.exec_module(module)
        finally:
            # Only the transform may see a placeholder: elsewhere a missing package stays missing.
            for package in placeholders:
                sys.modules.pop(package, None)
        if module.__name__ in PATCHED_MODULES:
            import_module(PATCHED_MODULES[module.__name__]).apply(module)


def _add_placeholders(packages: Sequence[str]) -> list[str]:
    missing = [
        package
        for package in packages
        if package not in sys.modules and importlib.machinery.PathFinder.find_spec(package) is None
    ]
    for package in missing:
        sys.modules[package] = _Placeholder(package)
    return missing


class _Finder:
    """Finds the modules to patch as Python would and puts the patching loader in front."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in PATCHED_MODULES and name not in OPTIONAL_PACKAGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _PatchingLoader(spec.loader)  # type: ignore[assignment]
        return spec


def install() -> None:
    """Register the import hook once."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
        # OpenNMT-py uses names that torch deprecates, which no user can change.
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"onmt\.")


install()
