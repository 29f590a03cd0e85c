"""Packages that some of OpenNMT-py's options need, looked for before a model is built."""

from argparse import Namespace
from importlib.util import find_spec

from onmt_define.errors import UserError


def require_package(option: str, value: str, package: str) -> None:
    """Raise `UserError` if the package that an option's value needs isn't installed."""
    if find_spec(package) is None:
        raise UserError(f"{option} {value} needs the package {package}, which isn't installed")


def require_quantisation(opt: Namespace) -> None:
    """Raise `UserError` unless layers can be compressed as asked for."""
    if bool(opt.quant_layers) != bool(opt.quant_type):
        missing = "quant_type" if opt.quant_layers else "quant_layers"
        given = "quant_layers" if opt.quant_layers else "quant_type"
        raise UserError(f"{given} needs {missing}, which isn't set")
    if opt.quant_type.startswith("bnb"):
        require_package("quant_type", opt.quant_type, "bitsandbytes")
    elif opt.quant_type.startswith("awq"):
        require_package("quant_type", opt.quant_type, "awq")
