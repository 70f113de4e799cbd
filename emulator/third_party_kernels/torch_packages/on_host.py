"""torch's own operations on tensors of an emulated GPU, computed on the host: its CUDA build has machine code alone for them."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

aten = torch.ops.aten
# Allocations and copies need no kernel.
ON_DEVICE = {
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_strided.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
    aten.detach.default,
    aten._to_copy.default,
}


class OnHost(TorchDispatchMode):
    """Operations see copies of their tensors in the host's memory; what they write is copied back."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        on_device, copies = False, {}

        def to_host(value):
            nonlocal on_device
            if isinstance(value, torch.Tensor) and value.is_cuda:
                on_device = True
                if id(value) not in copies:
                    copies[id(value)] = value.cpu()
                return copies[id(value)]
            if isinstance(value, torch.device) and value.type == "cuda":
                on_device = True
                return torch.device("cpu")
            return value

        if function.is_view or function in ON_DEVICE:
            return function(*args, **kwargs)
        host_args, host_kwargs = tree_map(to_host, (args, kwargs))
        if not on_device:
            return function(*args, **kwargs)
        result = function(*host_args, **host_kwargs)
        written = {}
        for at, argument in enumerate(function._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            values = args[at] if at < len(args) else kwargs.get(argument.name)
            for value in values if isinstance(values, (list, tuple)) else [values]:
                if isinstance(value, torch.Tensor) and id(value) in copies:
                    value.copy_(copies[id(value)])
                    written[id(copies[id(value)])] = value

        def to_device(value):
            if not isinstance(value, torch.Tensor):
                return value
            return written[id(value)] if id(value) in written else value.cuda()

        return tree_map(to_device, result)
