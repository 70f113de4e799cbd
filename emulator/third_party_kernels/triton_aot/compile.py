"""Compiles Triton's kernels for a GPU that need not be there: compile.py CASE SM FILE writes FILE.ptx and FILE.json.

The PTX is the output of Triton's own compiler; its ptxas checks it, and says how many registers it takes.
"""

import json
import os
import pathlib
import sys

import cases
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kernels


def compile_case(name, sm):
    """The kernel of a case, for compute capability sm (80, 90, ...): its PTX, and the parameters of a launch."""
    case = cases.CASES[name]
    constants = case.constants(sm)
    signature = {argument: "constexpr" if argument in constants else kind for argument, kind in case.signature(sm).items()}
    attributes = {
        (at,): [["tt.divisibility", 16]]
        for at, kind in enumerate(signature.values())
        if kind.startswith("*") or list(signature)[at] in case.aligned
    }
    source = ASTSource(getattr(kernels, case.kernel), signature, constexprs=constants, attrs=attributes)
    compiled = triton.compile(source, target=GPUTarget("cuda", sm, 32), options=case.options(sm))
    about = compiled.metadata
    names = (
        "name",
        "shared",
        "num_warps",
        "num_ctas",
        "global_scratch_size",
        "profile_scratch_size",
        "tensordesc_meta",
        "launch_pdl",
        "launch_cooperative_grid",
    )
    return compiled.asm["ptx"], {key: getattr(about, key, None) for key in names}


def main():
    name, sm, file = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    ptx, about = compile_case(name, sm)
    file.parent.mkdir(parents=True, exist_ok=True)
    for suffix, text in ((".ptx", ptx), (".json", json.dumps(about, default=str))):
        part = file.with_suffix(f"{suffix}.{os.getpid()}")
        part.write_text(text)
        part.rename(file.with_suffix(suffix))


if __name__ == "__main__":
    main()
