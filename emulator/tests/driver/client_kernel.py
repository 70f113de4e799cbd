"""Shared by the Python clients: a kernel, and the device that they must find."""
import os

# values[i] = values[i] * factor + add, for i below n.
PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry change(.param .u64 values, .param .u32 n, .param .f32 factor, .param .f32 add)
{
  .reg .pred %p<2>;
  .reg .b64 %rd<4>;
  .reg .b32 %r<6>;
  .reg .f32 %f<5>;
  ld.param.u64 %rd1, [values];
  ld.param.u32 %r1, [n];
  ld.param.f32 %f1, [factor];
  ld.param.f32 %f2, [add];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra end;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f3, [%rd3];
  fma.rn.f32 %f4, %f3, %f1, %f2;
  st.global.f32 [%rd3], %f4;
end:
  ret;
}
"""


def check_device(name, major, minor):
    """The first device must be the one that FA_EMU_DEVICE asks for."""
    print(name, f"{major}.{minor}")
    assert os.environ["FA_EMU_DEVICE"].rstrip("af") == f"sm_{major}{minor}"
