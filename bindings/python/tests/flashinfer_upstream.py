"""FlashInfer's own tests on the CPU, with libfa.flashinfer in the place of flashinfer: a seeded sample of each test's cases of moderate
size. Usage: flashinfer_upstream.py FOLDER [CASES], a clone of github.com/flashinfer-ai/flashinfer and the cases of a test (12).

Nothing of FlashInfer is kept here: its files are adapted as they are read. A case that asks for NotImplementedError's features
(position encodings inside of attention, NVFP4) counts as refused, by the argument; any other failure ends the run with 1."""

import ast
import collections
import importlib.abc
import importlib.machinery
import inspect
import itertools
import pathlib
import random
import sys
import types

import pytest
import torch

import libfa.flashinfer

FILES = [
    "batch_decode_kernels",
    "batch_prefill",
    "batch_prefill_kernels",
    "decode_prefill_lse",
    "logits_cap",
    "non_contiguous_decode",
    "non_contiguous_prefill",
    "page",
    "shared_prefix_kernels",
    "single_prefill",
    "sliding_window",
    "tensor_cores_decode",
]
LARGEST = {"batch_size": 17, "qo_len": 130, "kv_len": 600, "q_len": 130, "seq_len": 600}
# Of CUDA graphs, torch.compile, NVFP4, FlashInfer's own choice of tiles and its limits,
# and wrappers that it has deprecated: no subjects here.
LEFT_OUT = ("nvfp4", "cuda_graph", "torch_compile", "fast_plan", "smem", "rejects", "shared_prefix")


class Adapted(ast.NodeTransformer):
    """Devices are the CPU: "cuda", "cuda:0", .to(0), .cuda()."""

    def visit_Constant(self, node):
        return ast.Constant("cpu") if node.value in ("cuda", "cuda:0") else node

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda"):
            if node.func.attr == "cuda" or (len(node.args) == 1 and getattr(node.args[0], "value", None) == 0):
                node.func.attr, node.args, node.keywords = "to", [ast.Constant("cpu")], []
        return node


class Anything(types.ModuleType):
    """A module of which any name is a function that does nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("cascade", "decode", "page", "prefill", "quantization"):
            return libfa.flashinfer
        return getattr(libfa.flashinfer, name, lambda *_, **__: (9, 0))


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """flashinfer and its modules, and the helpers of its tests that build its kernels and NVFP4 caches."""

    helpers = ("tests.test_helpers.jit_utils", "tests.test_helpers.utils_fp4")

    def find_spec(self, name, path=None, target=None):
        found = name.split(".")[0] == "flashinfer" or name in self.helpers
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if found else None

    def create_module(self, spec):
        return Anything(spec.name)

    def exec_module(self, module):
        pass


def adapted(path):
    module = types.ModuleType(path.stem)
    exec(compile(ast.fix_missing_locations(Adapted().visit(ast.parse(path.read_text()))), path, "exec"), vars(module))
    return module


def cases(test):
    """A test's cases of moderate size, in a seeded order."""
    marks = [mark.args[:2] for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    every = []
    for values in itertools.product(*(values for _, values in marks)):
        case = {}
        for (names, _), value in zip(marks, values):
            names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
            value = getattr(value, "values", value) if not isinstance(value, dict) else value
            case.update(zip(names, value if len(names) > 1 or isinstance(value, tuple) else (value,)))
        if all(not isinstance(case.get(name), int) or case[name] <= most for name, most in LARGEST.items()):
            every.append(case)
    return random.Random(1).sample(every, len(every))


def run(test, each):
    """(cases passed, refused arguments with their numbers, a text of the failure)"""
    passed, refused = 0, collections.Counter()
    for case in cases(test)[: 8 * each]:
        try:
            with torch.no_grad():
                test(**case)
        except (pytest.skip.Exception, pytest.xfail.Exception):
            continue
        except NotImplementedError as error:
            refused[str(error).split(", expected")[0]] += 1
            continue
        except (Exception, pytest.fail.Exception) as error:
            return passed, refused, f"{case}: {type(error).__name__}: {str(error)[:600]}"
        passed += 1
        if passed == each:
            break
    return passed, refused, None


def main(folder, each=12):
    sys.path.insert(0, folder)
    sys.meta_path.insert(0, Finder())
    torch.cuda.synchronize = lambda *_: None
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.manual_seed(0)
    failed = 0
    for name in FILES:
        module = adapted(pathlib.Path(folder, "tests", "attention", f"test_{name}.py"))
        for test, function in vars(module).items():
            if not test.startswith("test_") or any(word in test for word in LEFT_OUT) or not inspect.isfunction(function):
                continue
            passed, refused, failure = run(function, int(each))
            more = "".join(f", {count} refused ({text})" for text, count in refused.items())
            print(f"{name}.{test}: {passed} passed{more}" + (f", FAILED {failure}" if failure else ""), flush=True)
            failed += failure is not None
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
