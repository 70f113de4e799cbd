"""Tensors of torch whose values are not in memory as they are: computed lazily, wrapped, or kept in another layout. Such a
tensor is resolved or refused by name. Nothing is imported that the caller has not imported.
"""

import sys
from typing import Any

from .errors import Unreadable


def _why(x: Any) -> str:
    """Why a tensor's memory does not hold its elements, and a remedy."""
    torch = sys.modules["torch"]
    if x.is_nested:
        return (
            "is a nested tensor, expected one tensor; x.values() with cu_seqlens_* = x.offsets().int() works, and so does "
            "torch.nested.to_padded_tensor with seqused_*"
        )
    if "sparse" in str(x.layout):
        return f"is sparse ({x.layout}), expected a dense tensor; x.to_dense() works"
    if x.layout != torch.strided:
        return f"has torch's layout {x.layout}, expected torch.strided; x.to_dense() works"
    if torch._is_functional_tensor(x):
        return "is a functional tensor, without memory; libfa.torch.attention works inside torch.func.functionalize"
    if torch._C._functorch.is_functorch_wrapped_tensor(x):
        return "is wrapped by torch.func (vmap, grad), without memory; libfa.torch.attention works there"
    if overrides(x):
        return (
            f"is a {type(x).__name__}, a subclass of torch.Tensor without memory; the plain tensor inside works, or "
            "libfa.torch.attention where the subclass knows operators"
        )
    return "has no memory: its storage was freed; expected a tensor that holds its elements"


def error(x: Any, what: str) -> Unreadable:
    return Unreadable(f"{what}: {_why(x)}")


def overrides(x: Any) -> bool:
    """Whether x is of a subclass that implements operators itself."""
    return type(x).__torch_dispatch__ is not sys.modules["torch"].Tensor.__torch_dispatch__


def require_strided(x: Any, what: str) -> None:
    """Refuses a tensor of torch in a layout that has no shape and strides, before either is asked for."""
    if x.is_nested or x.layout != sys.modules["torch"].strided or _masked(x):
        raise error(x, what)


def _masked(x: Any) -> bool:
    """Whether x is a MaskedTensor: its masked elements would be attended all the same."""
    return type(x).__name__ == "MaskedTensor" and overrides(x)
