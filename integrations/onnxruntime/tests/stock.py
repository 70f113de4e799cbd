"""The stock onnxruntime of PyPI and ONNX, fetched once into ~/.cache/libfa/onnxruntime, and sessions with and without libfa.

Needs NumPy and ml_dtypes. As a program it fetches them; 77 where they cannot be fetched.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

PINNED = ["onnxruntime==1.32.0", "onnx==1.23.2", "protobuf==7.36.2", "flatbuffers==25.12.19"]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "libfa/onnxruntime"
CACHE /= re.sub(r"\W+", "-", "-".join([*PINNED[:2], sys.implementation.cache_tag]))
NAME = "FaExecutionProvider"


class CannotFetch(Exception):
    pass


def fetch():
    """The folder of the packages, in sys.path from then on."""
    if not CACHE.exists():
        partial = CACHE.with_name(f"{CACHE.name}.{os.getpid()}")
        try:
            done = subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps",
                                   "--only-binary", ":all:", "--target", partial, *PINNED], capture_output=True, text=True, timeout=900)
            if done.returncode != 0:
                raise CannotFetch(f"pip: {done.stderr.strip()[-500:]}")
            partial.rename(CACHE)
        except subprocess.TimeoutExpired as error:
            raise CannotFetch(str(error)) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    sys.path.insert(0, str(CACHE))
    return CACHE


def fetch_or_skip():
    try:
        return fetch()
    except CannotFetch as error:
        print("skipped:", error)
        sys.exit(77)


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
