#!/usr/bin/env python3
"""Stands for nvidia-smi on PATH: four GPUs, all of them busy."""

import sys

GPUS = [f"GPU-{index}aa-bb" for index in range(4)]

if sys.argv[1:] == ["-L"]:
    for index, gpu in enumerate(GPUS):
        print(f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: {gpu})")
    sys.exit()

asked = dict(argument.split("=", 1) for argument in sys.argv[1:])
assert asked["--query-gpu"] == "uuid,utilization.gpu,memory.used,power.draw"
assert asked["--format"] == "csv,noheader,nounits"
for gpu in asked["--id"].split(","):
    index = GPUS.index(gpu)
    power = "[N/A]" if index == 3 else f"{360.0 + index:.2f}"
    print(f"{gpu}, {90 + index}, {1000 * (index + 1)}, {power}")
