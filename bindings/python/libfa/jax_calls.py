"""fa_forward and fa_backward as custom calls of XLA (jax_ffi.cpp), the one as the gradient of the other."""

from __future__ import annotations

import ctypes
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from . import capi

_FORWARD, _BACKWARD = "libfa_attention", "libfa_attention_backward"

# Inputs without a gradient that floats could have, and what to do.
_CONSTANTS = {
    "a": "alibi_slopes: has no gradient; expected jax.lax.stop_gradient(alibi_slopes), or a mere array",
    "t": "block_table: libfa computes no gradients of attention over pages; expected k and v without it",
}


def _register() -> None:
    path = pathlib.Path(capi.__file__).with_name("_jax.so")
    if not path.exists():
        raise ImportError(
            "libfa.jax: this libfa was built where there was no jax; in its sources: pip install jax scikit-build-core swig, "
            "then pip install --no-build-isolation --force-reinstall ."
        )
    library = ctypes.cdll.LoadLibrary(str(path))
    jax.ffi.register_ffi_target(_FORWARD, jax.ffi.pycapsule(library.fa_jax_attention), platform="cpu")
    jax.ffi.register_ffi_target(_BACKWARD, jax.ffi.pycapsule(library.fa_jax_attention_backward), platform="cpu")


_register()


def _no_second_derivative(*_: Any) -> Any:
    raise NotImplementedError("libfa.jax.attention: libfa computes no second derivatives")


def attention(given: str, out_dtype: Any, attributes: dict[str, Any]) -> Any:
    """(out, lse) as a differentiable function of q, k, v and the inputs whose letters are in given, each of four dimensions
    or an array of int32."""

    def forward(q: Any, k: Any, v: Any, *rest: Any) -> Any:
        batch, rows, heads, _ = q.shape
        results = (
            jax.ShapeDtypeStruct(q.shape[:-1] + v.shape[-1:], out_dtype),
            jax.ShapeDtypeStruct((batch, heads, rows, 1), jnp.float32),
        )
        return jax.ffi.ffi_call(_FORWARD, results, vmap_method="sequential")(q, k, v, *rest, given=given, **attributes)

    def forward_rule(*primals: Any) -> Any:
        wanted = [letter for letter, x in zip("qkv" + given, primals) if x.perturbed]
        for letter, text in _CONSTANTS.items():
            if wanted and letter in (given if letter == "t" else wanted):
                raise NotImplementedError(text)
        inputs = tuple(x.value for x in primals)
        results = differentiable(*inputs)  # so that a derivative of second order meets no bare call
        # What is wanted must be known when the gradient is traced: it is in the structure, where {} is wanted and None is not.
        return results, (inputs, results, tuple({} if x.perturbed else None for x in primals))

    def backward_rule(kept: Any, gradients: Any) -> Any:
        inputs, (out, lse), asked = kept
        wanted = "".join(letter for letter, x in zip("qkv" + given, asked) if x is not None)
        dout, dlse = gradients
        if isinstance(dout, SymbolicZero):
            dout = jnp.zeros(out.shape, out.dtype)
        letters, rest = given, inputs[3:]
        if not isinstance(dlse, SymbolicZero):
            letters, rest = given + "D", (*rest, dlse)
        results = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x, a in zip(inputs, asked) if a is not None]

        def backward(*arrays: Any) -> Any:
            call = jax.ffi.ffi_call(_BACKWARD, results, vmap_method="sequential")
            return call(*arrays, given=letters, wanted=wanted, **attributes)

        once: Any = jax.custom_vjp(backward)
        once.defvjp(_no_second_derivative, _no_second_derivative)
        found = iter(once(*inputs[:3], out, lse, dout, *rest))
        return tuple(None if a is None else next(found) for a in asked)

    differentiable: Any = jax.custom_vjp(forward)
    differentiable.defvjp(forward_rule, backward_rule, symbolic_zeros=True)
    return differentiable
