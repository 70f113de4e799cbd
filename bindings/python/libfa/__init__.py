"""Fused attention (FlashAttention) by libfa, on arrays of any library, without copies.

    import numpy, libfa
    out = libfa.attention(q, k, v, causal=True)      # (batch, sequence, heads, dim)

libfa.backward computes gradients; those of libfa.torch are known to autograd. libfa.merge combines results over different keys.
libfa.flash_attn has flash_attn's functions; libfa.torch, libfa.transformers and libfa.jax are imported by who uses them.
"""

from . import capi
from .append import append
from .attention import attention
from .backward import Gradients, backward
from .errors import DistributedError, DriverError, Error, InvalidArgument, NoDevice, OutOfMemory, Unsupported
from .merge import merge
from .op import Op, clear_cache

__version__: str = capi.FA_VERSION_STRING

__all__ = [
    "DistributedError",
    "DriverError",
    "Error",
    "Gradients",
    "InvalidArgument",
    "NoDevice",
    "Op",
    "OutOfMemory",
    "Unsupported",
    "append",
    "attention",
    "backward",
    "clear_cache",
    "merge",
]
