"""The stock onnxruntime of PyPI and ONNX, fetched once into ~/.cache/libfa/onnxruntime, and sessions with and without libfa.

Needs NumPy and ml_dtypes. As a program it fetches them; 77 where they cannot be fetched.
"""
import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "plugin/tests"))
import plugins  # noqa: E402
from plugins import or_skip  # noqa: E402

USUAL = "1.32.0"
VERSION = os.environ.get("FA_TEST_ONNXRUNTIME") or USUAL  # versions.py
PINNED = [f"onnxruntime=={VERSION}", "onnx==1.23.2", "protobuf==7.36.2", "flatbuffers==25.12.19"]
NAME = "FaExecutionProvider"
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")


def fetch():
    """The folder of the packages, in sys.path from then on."""
    folder = plugins.fetched("onnxruntime", "-".join([*PINNED[:2], sys.implementation.cache_tag]), fill)
    sys.path.insert(0, str(folder))
    return folder


def fill(folder):
    plugins.pip("install", "--no-deps", "--only-binary", ":all:", "--target", folder, *PINNED)


def fetch_or_skip():
    return or_skip(fetch)


def register(library):
    """libfa's device, of the library at this path."""
    import onnxruntime
    if not (devices := [d for d in onnxruntime.get_ep_devices() if d.ep_name == NAME]):
        onnxruntime.register_execution_provider_library("libfa", str(pathlib.Path(library).resolve()))
        devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == NAME]
    return devices


def session(model, devices=None, threads=1, **entries):
    """A session of the model's bytes, on these devices or on ONNX Runtime's CPU provider alone."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = not SANITIZED  # which knows the ends of blocks of malloc alone
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for name, value in entries.items():
        options.add_session_config_entry(name, value)
    if devices:
        options.add_provider_for_devices(devices, {})
    return onnxruntime.InferenceSession(model, options)


def taken(session):
    """The number of nodes that run on libfa."""
    graphs = session.get_provider_graph_assignment_info()
    return sum(len(graph.get_nodes()) for graph in graphs if graph.ep_name == NAME)


if __name__ == "__main__":
    print(fetch_or_skip())
