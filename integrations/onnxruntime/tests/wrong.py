"""Random nodes of models that leave lengths open, run with one input that is too long, too short, empty, or has another number: libfa
refuses the input, or its results are ONNX Runtime's own, where that computes any.

Usage: wrong.py LIBONNXRUNTIME_FA [COUNT [SEED]]; without a count 90 nodes, each with 4 inputs that are wrong
"""
import collections
import sys

import numpy as np

import stock

stock.fetch_or_skip()
import nodes  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402

NUMBERS = -(2**31), -1, 0, 1, 3, 1000, 1000 if stock.SANITIZED else 2**31 - 1  # AddressSanitizer ends where memory is short


def open_lengths(model, known):
    """The model with the last `known` lengths of each input alone."""
    model = onnx.load_from_string(model)
    for value in model.graph.input:
        lengths = value.type.tensor_type.shape.dim
        for i, length in enumerate(lengths[: max(len(lengths) - known, 0)]):
            length.dim_param = f"{value.name}_{i}"
    return model.SerializeToString()


def wrong(r, feeds):
    """A name, and the array with one length or one number changed."""
    name = r.of(*feeds)
    array = feeds[name].copy()
    if array.dtype in ("i4", "i8") and array.size and r.of(True, True, False):
        array.reshape(-1)[r.upto(array.size) - 1] = r.of(*NUMBERS)
        return name, array
    axis = r.upto(array.ndim) - 1
    length = r.of(array.shape[axis] + 1, max(array.shape[axis] - 1, 0), 2 * array.shape[axis], 0)
    shape = [length if i == axis else n for i, n in enumerate(array.shape)]
    return name, np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)


def result(session, feeds):
    try:
        return session.run(None, feeds)
    except Exception as error:
        return str(error)


def compare(library, count=90, seed=0):
    onnxruntime.set_default_logger_severity(4)  # ONNX Runtime logs each error that it raises
    devices, seen = stock.register(library), collections.Counter()
    for i in range(seed, seed + count):
        r = nodes.Random(i)
        make = [nodes.group_query, nodes.attention, nodes.multi_head][i % 3]
        built, x, kind = make(r)
        model = open_lengths(built, r.of(1, 1, 2))
        try:
            mine, own = stock.session(model, devices), stock.session(model)
        except Exception as error:
            assert stock.VERSION != stock.USUAL, error
            seen["this ONNX Runtime refuses the model"] += 1
            continue
        if not stock.taken(mine):
            seen["left"] += 1
            continue
        feeds = {name: array for name, array in x.items() if array is not None}
        for _ in range(4):
            name, array = wrong(r, feeds)
            given = {**feeds, name: array}
            ours, theirs = (result(session, given) for session in (mine, own))
            seen["libfa refuses" if isinstance(ours, str) else "ONNX Runtime refuses" if isinstance(theirs, str) else "both compute"] += 1
            what = f"node {i}, {make.__name__} of {kind}, {name} of shape {array.shape}"
            if isinstance(ours, str):
                assert "libfa: " in ours or "Got invalid dimensions" in ours, f"{what}: {ours}"  # or the model has the length
            elif not isinstance(theirs, str):
                pairs = list(zip(nodes.used(ours, given), nodes.used(theirs, given), strict=True))
                assert all(a.shape == b.shape for a, b in pairs), what
                ties = any(a.dtype.kind in "iu" and (a != b).any() for a, b in pairs)
                bound = 0.1 if ties else 5e-3 if name == "padding" else nodes.BOUND[kind]  # scores near -10,000 have few bits
                errors = [nodes.difference(a, b) for a, b in pairs]
                assert all(error <= bound for error in errors), f"{what}: {errors}"
    print(dict(seen))


if __name__ == "__main__":
    compare(sys.argv[1], *map(int, sys.argv[2:]))
