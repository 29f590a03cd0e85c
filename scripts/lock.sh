#!/bin/sh
# Print exact versions of everything the project needs, resolved in a fresh environment.
# usage: lock.sh PYTHON TORCH_REQUIREMENT
set -eu
environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
"$1" -m venv "$environment"
pip="$environment/bin/python -m pip --disable-pip-version-check"
$pip install --quiet "$2" >&2
$pip install --quiet ".[cluster,dev]" >&2
$pip install --quiet --no-deps OpenNMT-py==3.5.1 >&2
echo "# Exact versions of a tested environment; make lock writes this file."
# What torch alone brings along for this platform's hardware stays with torch.
$pip freeze --exclude-editable --exclude onmt_define |
    grep -v -e ' @ file:' -e '^nvidia-' -e '^triton=' |
    sed 's/+cpu//'
