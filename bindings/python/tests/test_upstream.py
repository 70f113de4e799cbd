"""flash_attn's own test file, tests/test_flash_attn.py of its source distribution, with libfa.flash_attn in the place of flash_attn:
a seeded sample of its cases on the CPU, with gradients, without dropout. Nothing of it is kept in this repository:
environment.sh fetches the distribution, and the file is adapted as it is read."""
# needs: torch, einops
# needs file: sources/flash_attn-2.8.3.post2.tar.gz

import ast
import itertools
import math
import pathlib
import random
import sys
import tarfile
import types
from unittest import mock

import pytest
import torch

from libfa import flash_attn

VERSION = "2.8.3.post2"
SOURCE = pathlib.Path(sys.prefix, "sources", f"flash_attn-{VERSION}.tar.gz")

torch.set_num_threads(1)  # the suites run side by side

LARGEST = 33000  # queries times keys of a case
EACH = 16  # cases of each test that run to their end; those that upstream skips itself are drawn again
TESTS = [
    "test_flash_attn_qkvpacked",
    "test_flash_attn_varlen_qkvpacked",
    "test_flash_attn_output",
    "test_flash_attn_varlen_output",
    "test_flash_attn_causal",
    "test_flash_attn_varlen_causal",
    "test_flash_attn_splitkv",
    "test_flash_attn_kvcache",
]


class Adapted(ast.NodeTransformer):
    """On the CPU."""

    def visit_Constant(self, node):
        return ast.Constant("cpu") if node.value == "cuda" else node


def rotary(x, cos, sin, interleaved=False, inplace=False, seqlen_offsets=0):
    """flash_attn.layers.rotary.apply_rotary_emb, which is written for GPUs, as a product of complex numbers."""
    half = cos.shape[1]
    at = torch.arange(x.shape[1]) + torch.as_tensor(seqlen_offsets).reshape(-1, 1)
    turn = torch.complex(cos.double(), sin.double())[at][:, :, None]
    pairs = x[..., : 2 * half].double()
    pairs = pairs.unflatten(-1, (half, 2)) if interleaved else pairs.unflatten(-1, (2, half)).transpose(-1, -2)
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn)
    turned = turned.flatten(-2) if interleaved else turned.transpose(-1, -2).flatten(-2)
    return torch.cat([turned.to(x.dtype), x[..., 2 * half :]], -1)


def module(name, **members):
    made = types.ModuleType(name)
    vars(made).update(members)
    return made


@pytest.fixture(scope="module")
def upstream():
    """The adapted file, as a module."""
    with tarfile.open(SOURCE) as archive:
        texts = {
            path: archive.extractfile(f"flash_attn-{VERSION}/{path}").read().decode()
            for path in ("tests/test_flash_attn.py", "flash_attn/bert_padding.py")
        }
    padding = module("flash_attn.bert_padding")
    exec(compile(texts["flash_attn/bert_padding.py"], "bert_padding.py", "exec"), vars(padding))
    stand_ins = {
        "flash_attn": flash_attn,
        "flash_attn.bert_padding": padding,
        "flash_attn.flash_attn_interface": module("interface", _get_block_size_n=None, USE_TRITON_ROCM=False),
        "flash_attn.layers.rotary": module("rotary", apply_rotary_emb=rotary),
    }
    device = mock.patch.multiple(
        torch.cuda,
        get_device_capability=lambda *_: (9, 0),
        get_device_properties=lambda *_: types.SimpleNamespace(total_memory=math.inf),
    )
    tests = module("upstream")
    tree = ast.fix_missing_locations(Adapted().visit(ast.parse(texts["tests/test_flash_attn.py"])))
    with mock.patch.dict(sys.modules, stand_ins), device:
        exec(compile(tree, "test_flash_attn.py", "exec"), vars(tests))
        yield tests


def cases(test):
    """A test's cases without dropout and of moderate size, in a seeded order."""
    marks = [mark.args for mark in test.pytestmark if mark.name == "parametrize"]
    names = [name for names, _ in marks for name in names.split(",")]
    every = []
    for values in itertools.product(*(values for _, values in marks)):
        case = dict(zip(names, (x for value in values for x in (value if isinstance(value, tuple) else (value,)))))
        rows = case["seqlen"] if "seqlen" in case else case["seqlen_q"]
        if rows * case.get("seqlen_k", rows) <= LARGEST and not case.get("dropout_p"):
            every.append(case)
    return random.Random(1).sample(every, len(every))


@pytest.mark.parametrize("name", TESTS)
def test_upstreams_own(upstream, name):
    ran = 0
    for case in cases(getattr(upstream, name)):
        try:
            getattr(upstream, name)(**case)
        except pytest.skip.Exception:
            continue
        except AssertionError as error:
            raise AssertionError(f"{name}({case})") from error
        ran += 1
        if ran == EACH:
            break
    assert ran == EACH
