"""fa_forward and fa_backward as primitives of JAX, which are custom calls of XLA (jax_ffi.cpp): the one as the gradient of the
other, for whatever is differentiated and nothing else.
"""

from __future__ import annotations

import ctypes
import functools
import pathlib
from typing import Any, NamedTuple

import jax
import jax.extend
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir, xla

from . import capi, fields, jax_batching, jax_sharding
from .jax_arrays import letter_of, names_of

# Inputs of floats that have no gradient, and a remedy.
CONSTANTS = {
    letter_of(name): f"{name}: has no gradient; expected jax.lax.stop_gradient({name}), or a mere array"
    for name, rules in fields.TENSORS.items()
    if rules.type in fields.FLOATS and name not in fields.GRADIENTS
}
CONSTANTS |= {
    "t": "block_table: libfa computes no gradients of attention over pages; expected k and v without it",
}


class Call(NamedTuple):
    """The settings of a call, which are not arrays."""

    given: str  # the letters of the inputs after q, k and v
    out_dtype: Any
    attributes: tuple[tuple[str, Any], ...]


class BackwardCall(NamedTuple):
    call: Call
    given: str  # of the inputs after dout: D is dlse
    wanted: str  # the letters of the inputs whose gradients are the results
    dtype: Any = None  # of the gradients; None: that of each input


def _register() -> None:
    path = pathlib.Path(capi.__file__).with_name("_jax.so")
    if not path.exists():
        raise ImportError(
            "libfa.jax: this libfa was built where there was no jax; in its sources: pip install jax scikit-build-core swig, "
            "then pip install --no-build-isolation --force-reinstall ."
        )
    library = ctypes.cdll.LoadLibrary(str(path))
    for name in (attention_p.name, backward_p.name):
        handler = getattr(library, name.replace("libfa", "fa_jax"))
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")


def _varying(x: Any) -> Any:
    """The axes of a shard_map over which the devices' values of x differ."""
    kind = jax.typeof(x)
    return getattr(kind, "vma", None) or getattr(getattr(kind, "manual_axis_type", None), "varying", frozenset())


def alike(arrays: Any) -> list[Any]:
    """Arrays that differ over the same axes of a shard_map."""
    axes = [_varying(x) for x in arrays]
    every = frozenset().union(*axes)
    missing = [tuple(every - own) for own in axes]
    return [jax.lax.pcast(x, names, to="varying") if names else x for x, names in zip(arrays, missing)]


def bind(primitive: Any, *arrays: Any, **params: Any) -> Any:
    """The primitive of arrays that are alike, as its abstract evaluation requires."""
    return primitive.bind(*alike(arrays), partitioned=jax_sharding.PARTITIONED, **params)


def _primitive(name: str) -> Any:
    primitive = jax.extend.core.Primitive(name)
    primitive.multiple_results = True
    return primitive


attention_p = _primitive("libfa_attention")
tangents_p = _primitive("libfa_attention_tangents")
backward_p = _primitive("libfa_attention_backward")


def _results(q: Any, k: Any, v: Any, *_: Any, call: Call, **__: Any) -> Any:
    batch, rows, heads, _ = q.shape
    out = q.update(shape=(batch, rows, heads, v.shape[3]), dtype=call.out_dtype, weak_type=False)
    return out, q.update(shape=(batch, heads, rows, 1), dtype=jnp.dtype("float32"), weak_type=False)


def _gradients(q: Any, k: Any, v: Any, out: Any, lse: Any, dout: Any, *rest: Any, call: BackwardCall, **_: Any) -> Any:
    inputs = dict(zip("qkv" + call.given, (q, k, v, *rest)))
    return [inputs[letter].update(dtype=call.dtype or inputs[letter].dtype, weak_type=False) for letter in call.wanted]


def _shapes(kinds: Any) -> list[Any]:
    return [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in kinds]


def _forward_call(*arrays: Any, call: Call) -> Any:
    results = _shapes(_results(*map(jax.typeof, arrays), call=call))
    return jax.ffi.ffi_call(attention_p.name, results)(*arrays, given=names_of(call.given), **dict(call.attributes))


def _backward_call(*arrays: Any, call: BackwardCall) -> Any:
    results = _shapes(_gradients(*map(jax.typeof, arrays), call=call))
    run = jax.ffi.ffi_call(backward_p.name, results)
    return run(*arrays, given=names_of(call.given), wanted=names_of(call.wanted), **dict(call.call.attributes))


def _forward_lowered(*arrays: Any, call: Call, **_: Any) -> Any:
    return jax_sharding.split(functools.partial(_forward_call, call=call), arrays, "qkv" + call.given, "OL", call.given)


def _backward_lowered(*arrays: Any, call: BackwardCall, **_: Any) -> Any:
    function = functools.partial(_backward_call, call=call)
    return jax_sharding.split(function, arrays, "qkvOLO" + call.given, call.wanted, call.given)


def _differentiate(primals: Any, tangents: Any, *, call: Call, **_: Any) -> Any:
    """The results, and their tangents as a linear function of those of the inputs, which is there to be transposed."""
    wanted = [type(x) is not ad.Zero for x in tangents]
    letters = "".join(letter for letter, x in zip("qkv" + call.given, wanted) if x)
    for letter, text in CONSTANTS.items():
        if letter in (call.given if letter == "t" else letters):
            raise NotImplementedError(text)
    results = bind(attention_p, *primals, call=call)
    given = [x for x, wants in zip(tangents, wanted) if wants]
    return results, bind(tangents_p, *primals, *results, *given, call=call, wanted=letters)


def _tangents(*arrays: Any, call: Call, **_: Any) -> Any:
    return arrays[3 + len(call.given) : 5 + len(call.given)]  # out and lse


def _transpose(gradients: Any, *arrays: Any, call: Call, wanted: str, **_: Any) -> Any:
    dout, dlse = gradients
    count = 3 + len(call.given)
    inputs, (out, lse) = arrays[:count], arrays[count : count + 2]
    dout = jnp.zeros(out.shape, out.dtype) if type(dout) is ad.Zero else dout
    given, rest = call.given, inputs[3:]
    if type(dlse) is not ad.Zero:
        given, rest = given + "D", (*rest, dlse)
    found = bind(backward_p, *inputs[:3], out, lse, dout, *rest, call=BackwardCall(call, given, wanted))
    return [None] * (count + 2) + list(found)


def _forward_mode(*_: Any, **__: Any) -> Any:
    raise NotImplementedError(
        "libfa.jax.attention: has no derivatives in forward mode (jax.jvp, jacfwd, hessian); expected reverse mode (jax.grad, "
        "vjp, jacrev)"
    )


def _second_derivatives(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("libfa.jax.attention: libfa computes no second derivatives")


attention_p.def_impl(functools.partial(xla.apply_primitive, attention_p))
attention_p.def_abstract_eval(_results)
ad.primitive_jvps[attention_p] = _differentiate
batching.primitive_batchers[attention_p] = functools.partial(jax_batching.forward, bind, attention_p)
mlir.register_lowering(attention_p, mlir.lower_fun(_forward_lowered, multiple_results=True), platform="cpu")

tangents_p.def_impl(_forward_mode)
tangents_p.def_abstract_eval(_tangents)
ad.primitive_jvps[tangents_p] = _second_derivatives
ad.primitive_transposes[tangents_p] = _transpose
batching.primitive_batchers[tangents_p] = _forward_mode
mlir.register_lowering(tangents_p, _forward_mode)

backward_p.def_impl(functools.partial(xla.apply_primitive, backward_p))
backward_p.def_abstract_eval(_gradients)
ad.primitive_jvps[backward_p] = _second_derivatives
batching.primitive_batchers[backward_p] = functools.partial(jax_batching.backward, bind, backward_p)
mlir.register_lowering(backward_p, mlir.lower_fun(_backward_lowered, multiple_results=True), platform="cpu")

_register()
