"""How XLA splits a call among devices: over the batch and over the heads, which needs no communication but sums of shared
gradients.

Every array is described by a string of its dimensions: b and h are split, . is whole on every device.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import jax
import numpy
from jax.experimental.custom_partitioning import CompoundFactor, SdyShardingRule, custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .jax_arrays import letters_of

# JAX lets a lowering see the devices where the lowered function has custom_partitioning: as a parameter of the primitives.
_identity = custom_partitioning(lambda x: x)
_identity.def_partition(None)
PARTITIONED = jax.make_jaxpr(_identity)(jax.ShapeDtypeStruct((), "float32"))

# By the letters of jax_arrays.py; O is out and dout, L and D are lse and dlse.
_DIMENSIONS = {
    **dict.fromkeys("qO", "b.h."),
    **dict.fromkeys("kv", "p.h."),  # p: b where k has the sequences of q
    **dict.fromkeys("LD", "bh.."),
    **dict.fromkeys(letters_of("scores", "per_head"), "bh.."),
    **dict.fromkeys(letters_of("pages"), "b..."),
    **dict.fromkeys("uUlio", "b"),
    **dict.fromkeys("QK", "."),
}


def _describe(letters: str, shapes: list[tuple[int, ...]], given: str, gradients: bool) -> list[str]:
    packed = "Q" in given or "K" in given
    shared = "i" in given or "t" in given  # sequences read any of k's, and the gradients of one may be on any device
    whole = {"b": packed or (shared and gradients), "p": packed or shared, "h": False}
    found = []
    for letter, shape in zip(letters, shapes):
        kept = ("." if size == 1 or whole.get(d, True) else d for d, size in zip(_DIMENSIONS[letter], shape))
        found.append("".join(kept).replace("p", "b"))
    return found


def _rule(inputs: list[str], results: list[str], heads: int, kv_heads: int, letters: str, wanted: str) -> SdyShardingRule:
    """Shardy's: which dimensions are split together. A head of k has a group of q's heads, so that theirs are two factors."""
    grouped = 1 < kv_heads < heads
    whole: list[str] = []  # in the order of their first dimension, as Shardy wants them

    def factors(letter: str, dimensions: str) -> tuple[Any, ...]:
        found: list[Any] = []
        for d in dimensions:
            if d == ".":
                whole.append(f"w{len(whole)}")
                found.append(whole[-1])
            elif d == "h" and grouped and letter not in "kv":
                if "g" not in whole:
                    whole.append("g")
                found.append(CompoundFactor("h", "g"))
            else:
                found.append(d)
        return tuple(found)

    operands = tuple(factors(*x) for x in zip(letters, inputs))
    outputs = tuple(factors(*x) for x in zip(wanted, results))
    sizes = {"g": heads // kv_heads} if grouped else {}
    return SdyShardingRule(operands, outputs, need_replication_factors=tuple(whole), **sizes)


def _axes(sharding: Any, mesh: Any, shape: tuple[int, ...], dimension: int, sizes: tuple[int, ...]) -> tuple[str, ...]:
    """The axes of the mesh that a dimension is split over, major first: as many as divide all the sizes. None where it is split
    by a part of an axis, or unevenly.
    """
    try:
        slices = sharding.devices_indices_map(shape)
    except ValueError:
        return ()
    starts = numpy.array([slices[device][dimension].start or 0 for device in mesh.devices.flat]).reshape(mesh.devices.shape)
    steps = {axis: int(numpy.diff(starts, axis=i).max(initial=0)) for i, axis in enumerate(mesh.axis_names)}
    axes = sorted((axis for axis, step in steps.items() if step), key=lambda axis: -steps[axis])
    parts = [mesh.shape[axis] for axis in axes]
    if math.prod(parts) != len(numpy.unique(starts)):
        return ()
    while axes and any(size % math.prod(parts[: len(axes)]) for size in sizes):
        axes.pop()
    return tuple(axes)


def _mesh(mesh: Any, sharding: Any) -> Any:
    """The mesh that JAX knows of, or one of the devices where it knows none."""
    devices = sorted(sharding.device_set, key=lambda device: device.id)
    return Mesh(numpy.array(devices), ("devices",)) if mesh.empty else mesh


def split(function: Callable[..., Any], arrays: Any, letters: str, wanted: str, given: str) -> Any:
    """function(*arrays), each device computing its own sequences and heads."""
    q, k = arrays[:2]
    by_letter = {**dict(zip(letters, arrays)), "L": jax.ShapeDtypeStruct((q.shape[0], q.shape[2], q.shape[1], 1), "float32")}
    by_letter["O"] = q
    gradients = wanted != "OL"
    inputs = _describe(letters, [x.shape for x in arrays], given, gradients)
    results = _describe(wanted, [by_letter[letter].shape for letter in wanted], given, gradients)
    heads, kv_heads = q.shape[2], k.shape[2]

    def places(mesh: Any, sharding: Any) -> tuple[dict[str, tuple[str, ...]], Any, Any]:
        """The axes over which each dimension is split, and the resulting shardings of the inputs and the results."""
        axes = {
            "b": _axes(sharding, mesh, q.shape, 0, (q.shape[0],)) if inputs[0][0] == "b" else (),
            "h": _axes(sharding, mesh, q.shape, 2, (heads, kv_heads)[: 1 + (kv_heads > 1)]) if inputs[0][2] == "h" else (),
        }
        of = lambda x: NamedSharding(mesh, PartitionSpec(*(axes.get(d) or None for d in x)))  # noqa: E731
        return axes, tuple(map(of, inputs)), tuple(map(of, results))

    def partition(mesh: Any, arguments: Any, _: Any) -> Any:
        mesh = _mesh(mesh, arguments[0].sharding)
        axes, of_inputs, of_results = places(mesh, arguments[0].sharding)

        def on_device(*local: Any) -> Any:
            found = []
            for x, dimensions in zip(function(*local), results):
                shared = tuple(axis for d in "bh" if d not in dimensions for axis in axes[d])
                found.append(jax.lax.psum(x.astype("float32"), shared).astype(x.dtype) if shared else x)
            return tuple(found)

        return mesh, on_device, of_results, of_inputs

    def infer(mesh: Any, arguments: Any, _: Any) -> Any:
        return places(_mesh(mesh, arguments[0].sharding), arguments[0].sharding)[2]

    parted = custom_partitioning(lambda *x: tuple(function(*x)))
    rule = _rule(inputs, results, heads, kv_heads, letters, wanted)
    parted.def_partition(partition, infer_sharding_from_operands=infer, decode_shardings=False, sharding_rule=rule)
    return parted(*arrays)


def of_explicit_axes(function: Callable[..., Any], arrays: list[Any]) -> Any:
    """function(*arrays), out and lse, where the types of arrays say how they are sharded: as q's batch and heads are."""
    sharding = jax.typeof(arrays[0]).sharding
    axes = sharding.mesh.explicit_axes
    if not axes:
        return function(*arrays)
    batch, _, heads, _ = sharding.spec
    specs = (PartitionSpec(batch, None, heads, None), PartitionSpec(batch, heads, None, None))
    places = tuple(NamedSharding(sharding.mesh, spec) for spec in specs)
    return jax.sharding.auto_axes(lambda *x: tuple(function(*x)), axes=axes, out_sharding=places)(*arrays)
