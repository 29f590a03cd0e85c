"""Training with several processes, one for each GPU, which end together.

Stock OpenNMT-py waits for its ranks one after the other: when one dies, the others wait for it in
their next exchange of gradients, and the command ends with status 0. It uses SIGUSR1 for itself,
and its port is the same for every training of a machine.
"""

import functools
import os
import signal
import socket
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import connection, parent_process
from multiprocessing.process import BaseProcess
from types import ModuleType

import torch

import onmt_define.opennmt.startup  # noqa: F401  # a rank may start without the start-up file
from onmt_define.errors import exit_on_user_error
from onmt_define.stop_signals import StopRequest, die_with_parent, stop_signal

STOCK_PORT = 10000
"""OpenNMT-py's default; where a user sets another, or ranks are on other machines, it stays."""


def patch_train(module: ModuleType) -> None:
    """Let `onmt.bin.train` hand a training with several ranks to this module."""
    original = module.train

    @functools.wraps(original)
    def train(opt: Namespace) -> None:
        if opt.world_size > 1:
            _train_on_ranks(module, opt)
        else:
            original(opt)

    module.train = train  # type: ignore[attr-defined]


def _train_on_ranks(module: ModuleType, opt: Namespace) -> None:
    module.init_logger(opt.log_file)
    module.ArgumentParser.validate_train_opts(opt)
    module.ArgumentParser.update_model_opts(opt)
    module.ArgumentParser.validate_model_opts(opt)
    if opt.master_port == STOCK_PORT and len(opt.gpu_ranks) == opt.world_size:
        opt.master_port = _free_port()
    context = torch.multiprocessing.get_context("spawn")
    ranks = [
        context.Process(target=run_rank, args=(opt, device_id), name=f"rank {rank}")
        for device_id, rank in enumerate(opt.gpu_ranks)
    ]
    try:
        with StopRequest().listening(lambda number: _send(number, ranks)):
            for rank in ranks:
                rank.start()
                module.logger.info(f"Starting process pid: {rank.pid} ({rank.name})")
            status = _wait_for(ranks)
    finally:
        _send(signal.SIGKILL, ranks)
    if status:
        sys.exit(status)


def run_rank(opt: Namespace, device_id: int) -> None:
    """What each spawned process does: train as rank `gpu_ranks[device_id]`."""
    parent = parent_process()
    assert parent is not None
    assert parent.pid is not None
    die_with_parent(parent.pid)
    from onmt.train_single import main
    from onmt.utils.distributed import multi_init

    with exit_on_user_error():
        multi_init(opt, device_id)
        main(opt, device_id)


def _wait_for(ranks: Sequence[BaseProcess]) -> int:
    """The exit status of the whole: 0 if all ranks ended well, else that of the first that didn't.

    Ranks that were asked to stop do so together; after any other end the rest is not waited for.
    """
    running, stopped = {rank.sentinel: rank for rank in ranks}, 0
    while running:
        for sentinel in connection.wait(list(running)):
            rank = running.pop(sentinel)  # type: ignore[call-overload]
            rank.join()
            status = rank.exitcode
            assert status is not None
            if status < 0:
                name = signal.Signals(-status).name
                print(
                    f"error: {rank.name} was ended by {name}, the others with it", file=sys.stderr
                )
                return 128 - status
            if status and not stop_signal(status):
                return status
            stopped = stopped or status
    return stopped


def _send(number: int, ranks: Sequence[BaseProcess]) -> None:
    for rank in ranks:
        if rank.pid is not None and rank.exitcode is None:
            with suppress(ProcessLookupError):
                os.kill(rank.pid, number)


def _free_port() -> int:
    with socket.socket() as candidate:
        candidate.bind(("localhost", 0))
        return candidate.getsockname()[1]
