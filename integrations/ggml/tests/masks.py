"""Masks that the backend recognises, and near misses, through stock ggml: libfa's device against ggml's own.

Usage: masks.py LIBGGML_FA [FOLDER]; FOLDER has the binaries of another ggml
"""
import ctypes as c
import os
import pathlib
import sys

import numpy as np

import stock

TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8, "bf16": 30}
TOLERANCE = 5e-4  # of test-backend-ops: of the mean squared error, divided by the mean square
INF = np.inf


def causal(queries, keys, offset):
    return np.where(np.arange(keys) <= np.arange(queries)[:, None] + offset, 0, -INF)


def window(queries, keys, offset, width):
    near = np.arange(keys) > np.arange(queries)[:, None] + offset - width
    return np.where(near, causal(queries, keys, offset), -INF)


def distances(queries, keys, offset):
    return causal(queries, keys, offset) - np.abs(np.arange(keys) - np.arange(queries)[:, None] - offset)


def changed(mask, *places):
    mask = mask.copy()
    for place in places:
        mask[place] = -INF if mask[place] == 0 else 0
    return mask


CASES = {  # the mask, and the differences from the usual
    "causal": (causal(9, 300, 200), {}),
    "causal from the start": (causal(64, 256, 0), {}),
    "causal, a hole": (changed(causal(9, 300, 200), (4, 17)), {}),
    "causal, a key too many": (changed(causal(9, 300, 200), (8, 209)), {}),
    "causal, two sequences": (np.stack([causal(5, 96, 40), causal(5, 96, 77)]), {}),
    "one token": (causal(1, 512, 400), {}),
    "one token, a part of the cache": (window(1, 512, 400, 100), {}),
    "one token, a hole": (changed(causal(1, 512, 400), (0, 100)), {}),
    "window": (window(40, 128, 60, 16), {}),
    "window from the start": (window(40, 128, 0, 16), {}),
    "window, a hole": (changed(window(40, 128, 60, 16), (11, 65)), {}),
    "window, two sequences": (np.stack([window(40, 128, 60, 16), window(40, 128, 75, 16)]), {}),
    "window both ways": (np.where(np.abs(np.arange(50) - np.arange(50)[:, None]) <= 8, 0, -INF), {}),
    "no mask": (None, {}),
    "full": (np.where(np.arange(80) < 71, np.zeros((6, 1)), -INF), {}),
    "blocks": (np.where(np.arange(64) // 8 == np.arange(64)[:, None] // 8, 0, -INF), {}),
    "alibi": (distances(11, 300, 200), {"max_bias": 8.0}),
    "alibi, one token": (distances(1, 300, 200), {"max_bias": 8.0}),
    "alibi, far": (distances(3, 3000, 2900), {"max_bias": 8.0}),
    "alibi, a hole": (changed(distances(11, 300, 200), (5, 9)), {"max_bias": 8.0}),
    "alibi, zeros": (causal(11, 300, 200), {"max_bias": 8.0}),
    "alibi, two sequences": (np.stack([distances(4, 96, 40), distances(4, 96, 77)]), {"max_bias": 4.0}),
    "distances without slopes": (distances(11, 300, 200) / 64, {}),
    "six heads": (distances(11, 300, 200), {"max_bias": 8.0, "heads": (6, 3)}),
    "softcap, window": (window(40, 128, 60, 16), {"softcap": 20.0}),
    "sinks, window": (window(40, 128, 60, 16), {"sinks": True}),
    "sinks, softcap, one token": (causal(1, 512, 400), {"sinks": True, "softcap": 20.0}),
    "another head dimension of v": (causal(9, 300, 200), {"dims": (192, 128)}),
    "rows of the mask that no query uses": (causal(16, 300, 200), {"queries": 9}),
    "rows in parts": (distances(600, 4096, 3000), {"max_bias": 8.0}),
}


class Case:
    def __init__(self, ggml, mask, types, max_bias=0.0, softcap=0.0, sinks=False, heads=(4, 2), dims=(64, 64), queries=None, size=1.0):
        self.ggml, self.random = ggml, np.random.default_rng(7)
        self.context = ggml.ggml_init(stock.InitParams(256 << 20, None, False))
        masks = mask if mask is None or mask.ndim == 3 else mask[None]
        batch, rows, keys = (1, 9, 77) if mask is None else masks.shape
        queries = queries or rows
        q = self.permuted("f32", dims[0], heads[0], queries, batch, size)
        k, v = (self.permuted(kind, dim, heads[1], keys, batch) for kind, dim in zip(types, dims))
        m = None if mask is None else self.tensor("f16", masks.astype(np.float16), keys, rows, 1, batch)
        self.out = ggml.ggml_flash_attn_ext(self.context, q, k, v, m, dims[0] ** -0.5, max_bias, softcap)
        if sinks:
            values = 3 * self.random.standard_normal(heads[0])
            ggml.ggml_flash_attn_ext_add_sinks(self.out, self.tensor("f32", values, heads[0], 1, 1, 1))
        self.graph = ggml.ggml_new_graph(self.context)
        ggml.ggml_build_forward_expand(self.graph, self.out)

    def bytes_of(self, tensor):
        data = (c.c_uint8 * self.ggml.ggml_nbytes(tensor)).from_address(self.ggml.ggml_get_data(tensor))
        return np.frombuffer(data, np.uint8)

    def tensor(self, kind, values, *shape):
        tensor = self.ggml.ggml_new_tensor_4d(self.context, TYPES[kind], *shape)
        values = np.ascontiguousarray(values, np.float32)
        if kind == "f16":
            self.bytes_of(tensor)[:] = values.astype(np.float16).reshape(-1).view(np.uint8)
        elif kind == "f32":
            self.bytes_of(tensor)[:] = values.reshape(-1).view(np.uint8)
        else:
            data = self.ggml.ggml_get_data(tensor)
            self.ggml.ggml_quantize_chunk(TYPES[kind], values.ctypes.data, data, 0, values.size // shape[0], shape[0], None)
        return tensor

    def permuted(self, kind, dim, heads, rows, batch, size=1.0):
        """As llama.cpp lays q and its cache out: the heads of a token are neighbours."""
        values = size * self.random.standard_normal((batch, rows, heads, dim))
        return self.ggml.ggml_permute(self.context, self.tensor(kind, values, dim, heads, rows, batch), 0, 2, 1, 3)

    def __call__(self, backend):
        out = self.bytes_of(self.out)
        out[:] = 0xFF
        status = self.ggml.ggml_backend_graph_compute(backend, self.graph)
        assert status == 0, f"ggml_backend_graph_compute returned {status}"
        return out.view(np.float32).astype(np.float64)


def thread_setter(ggml, device):
    """A device's function of a backend and its number of threads."""
    registration = ggml.ggml_backend_dev_backend_reg(device)
    address = ggml.ggml_backend_reg_get_proc_address(registration, b"ggml_backend_set_n_threads")
    return c.CFUNCTYPE(None, c.c_void_p, c.c_int)(address)


def main(library, folder=None):
    os.environ["GGML_BACKEND_PATH"] = library
    ggml = stock.Ggml(pathlib.Path(folder) if folder else stock.fetch()[1])
    backends = []
    for name in (b"CPU", b"FA"):
        device = ggml.ggml_backend_dev_by_name(name)
        assert device, f"ggml has no device {name.decode()}"
        backends.append(ggml.ggml_backend_dev_init(device, None))
    registration = ggml.ggml_backend_dev_backend_reg(device)
    set_threads = thread_setter(ggml, device)
    worst = 0
    for name, (mask, options) in CASES.items():
        for types in ("f16", "f16"), ("q8_0", "q4_0"), ("f32", "bf16"):
            set_threads(backends[1], 1 + len(name) % 3)
            case = Case(ggml, mask, types, **options)
            assert ggml.ggml_backend_dev_supports_op(device, case.out), f"{name}, {types}: not supported"
            wanted, got = (case(backend) for backend in backends)
            error = np.square(got - wanted).mean() / np.square(wanted).mean()
            worst = max(worst, error)
            assert error <= TOLERANCE, f"{name}, k and v of {types}: {error}"
            ggml.ggml_free(case.context)
    case = Case(ggml, causal(40, 300, 200), ("f16", "f16"), size=1e6)  # beyond f16, which ggml rounds q to
    assert np.isfinite(case(backends[1])).all()
    ggml.ggml_free(case.context)
    ggml.ggml_backend_free(backends[1])
    ggml.ggml_backend_unload(registration)  # and libfa, with its threads
    assert "libggml-fa" not in pathlib.Path("/proc/self/maps").read_text() and not ggml.ggml_backend_dev_by_name(b"FA")
    print(f"{len(CASES)} masks, the largest error {worst:.2g}")


if __name__ == "__main__":
    stock.or_skip(main, *sys.argv[1:])
