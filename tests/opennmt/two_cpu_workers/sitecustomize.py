"""Lets OpenNMT-py train two processes on the CPU, for the tests alone.

Stock OpenNMT-py only spawns workers for GPUs. On PYTHONPATH, this file is imported at the start of
the parent and of every worker; once `onmt.train_single` is loaded there, GPU calls become their
CPU counterparts.
"""

import importlib.abc
import sys


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "onmt.train_single":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)  # the plug-in's, too
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)))
        original = spec.loader.exec_module

        def exec_module(module):
            original(module)
            _use_the_cpu(module)

        spec.loader.exec_module = exec_module
        return spec


def _use_the_cpu(train_single):
    import onmt.model_builder
    import onmt.utils.distributed
    import onmt.utils.misc
    import torch

    torch.cuda.device_count = lambda: 2
    torch.cuda.set_device = lambda device: None
    onmt.model_builder.use_gpu = onmt.utils.misc.use_gpu = lambda opt: False

    def all_gather_list(data, max_size=4096):
        gathered = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(gathered, data)
        return gathered

    onmt.utils.distributed.all_gather_list = all_gather_list
    build_model = train_single.build_model

    def announced_build_model(model_opt, *arguments):
        model = build_model(model_opt, *arguments)
        print(f"worker built embedding_type {model_opt.embedding_type}", flush=True)
        return model

    train_single.build_model = announced_build_model
    build_iterator = train_single.build_dynamic_dataset_iter

    def build_cpu_iterator(*arguments, device_id, **settings):
        return build_iterator(*arguments, device_id=-1, **settings)

    train_single.build_dynamic_dataset_iter = build_cpu_iterator


sys.meta_path.insert(0, _Finder())
