"""Everything in fa.h can be reached from Python: each constant, structure, field and function in libfa.capi, and each field
of fa_desc and fa_forward_args by a keyword of libfa.attention, of fa_append_args by one of libfa.append. A field that is new in the header fails here until it is bound."""

import inspect

import header
import pytest
from conftest import SOURCE

import libfa
from libfa import capi

FA = header.read(SOURCE / "include" / "fa.h")

# Fields without a keyword of the same name, and the keywords and functions that set them.
BY_OTHER_MEANS = {
    "struct_size": "the constructors",
    "reserved": "must be 0",
    "device": "where the arrays live",
    "device_index": "where the arrays live",
    "dtype_q": "q's type",
    "dtype_kv": "k's type",
    "dtype_out": "out_dtype, or out's type",
    "head_dim": "q's last dimension",
    "head_dim_v": "v's last dimension",
    "head_dim_rope": "k_rope's last dimension",
    "dtype_k_rope": "k_rope's",
    "window_left": "window",
    "window_right": "window",
    "flags": "deterministic, batch_invariant, bias_before_softcap, hadamard_k, hadamard_v, device_pointers",
    "parallel_for_user": "parallel_for",
    "num_seqs": "the length of cu_seqlens",
    "workspace_size": "workspace",
}


def test_the_header_was_understood():
    assert len(FA.structs) == 7 and len(FA.functions) > 12 and FA.constants["FA_BF16"] == 3
    assert [field.name for field in FA.structs["fa_tensor"]] == ["data", "shape", "stride", "dtype", "reserved"]


def test_constants():
    for name, value in FA.constants.items():
        assert getattr(capi, name) == value, name


def test_functions():
    for name in FA.functions:
        by_constructors = name.endswith("_init") or name == "fa_destroy"
        assert hasattr(capi, name) != by_constructors, f"libfa.capi {'has' if by_constructors else 'lacks'} {name}"


@pytest.mark.parametrize("name", FA.structs)
def test_fields_of_structures(name):
    instance = getattr(capi, name)()
    for field in FA.structs[name]:
        assert hasattr(instance, field.name), f"libfa.capi.{name} lacks {field.name}"


def test_fields_of_an_attention():
    keywords = inspect.signature(libfa.attention).parameters
    for struct in ("fa_desc", "fa_forward_args"):
        for field in FA.structs[struct]:
            bound = field.name in keywords or field.name in BY_OTHER_MEANS or (struct, field.name) == ("fa_desc", "mask")
            assert bound, f"libfa.attention lacks {struct}.{field.name}"
    assert "causal" in keywords  # fa_desc.mask


def test_fields_of_appending():
    keywords = inspect.signature(libfa.append).parameters
    for field in FA.structs["fa_append_args"]:
        bound = field.name in keywords or field.name in BY_OTHER_MEANS or field.name == "workspace"  # which is not needed
        assert bound, f"libfa.append lacks fa_append_args.{field.name}"
    for flag in (name for name in FA.constants if name.startswith("FA_APPEND_")):
        assert flag.removeprefix("FA_APPEND_").lower() in keywords, f"libfa.append lacks {flag}"


def test_flags():
    flags = {name for name in FA.constants if name.startswith("FA_FLAG_")}
    bound = ("NONDETERMINISTIC", "BATCH_INVARIANT", "BIAS_BEFORE_SOFTCAP", "HADAMARD_K", "HADAMARD_V", "DEVICE_POINTERS")
    assert flags == {f"FA_FLAG_{name}" for name in bound}, "bind the new flag"


def test_a_new_field_would_be_seen(tmp_path):
    text = (
        (SOURCE / "include" / "fa.h").read_text().replace("  float softcap; ", "  float hardcap; /* new */\n  float softcap; ")
    )
    (tmp_path / "fa.h").write_text(text)
    fields = {field.name for field in header.read(tmp_path / "fa.h").structs["fa_desc"]}
    assert "hardcap" in fields and not hasattr(capi.fa_desc(), "hardcap")
