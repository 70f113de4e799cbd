"""A user's program as a type checker sees it: checked by mypy --strict, and run."""

import numpy

import libfa
from libfa import capi, flash_attn


def main() -> str:
    x = numpy.zeros((1, 4, 2, 8), "float32")
    out = libfa.attention(x, x, x, causal=True, window=(3, 0), softcap=1.0)
    same = flash_attn.flash_attn_func(x, x, x, causal=True)
    try:
        libfa.attention(x, x[..., :4], x)
    except libfa.InvalidArgument as error:
        text: str = str(error)
    with libfa.Op(dtype_q=capi.FA_F32, head_dim=8) as op:
        kernel: str = op.kernel
    status, handle = capi.fa_create(capi.fa_desc())
    assert status == capi.FA_ERROR_INVALID_ARGUMENT and handle is None
    version: int = capi.fa_version()
    return f"{text} {kernel} {version} {out.shape} {same.shape}"


if __name__ == "__main__":
    print(main())
