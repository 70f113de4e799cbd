//! candle's tensors on the CPU, in place, whatever their strides are.
use ::candle_core::{CpuStorage, CustomOp3, Error, Layout, Result, Shape};
use half::{bf16, f16};

use crate::{Op, TensorRef};

/// An op as one of candle's, of tensors `q` (B, Sq, Hq, D), `k` (B, Sk, Hkv, D) and `v` (B, Sk, Hkv, Dv) as candle-flash-attn has
/// them: a tensor (B, Sq, Hq, Dv) of q's type. Heads of `k` and `v` may be fewer.
///
/// ```
/// # use libfa::{candle::Attention, DType, Mask, Op};
/// # use candle_core::{Device, Tensor};
/// let op = Op::builder(DType::F32, 64).mask(Mask::Causal).build()?;
/// let q = Tensor::randn(0f32, 1., (1, 8, 128, 64), &Device::Cpu)?.transpose(1, 2)?; // (B, H, S, D) in memory: no copy
/// let k = Tensor::randn(0f32, 1., (1, 128, 2, 64), &Device::Cpu)?;
/// let out = q.apply_op3_no_bwd(&k, &k, &Attention(&op))?;
/// assert_eq!(out.dims(), [1, 128, 8, 64]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`Op::attention`], as candle's; tensors that have other than four dimensions or are not f32, f16 or bf16. It has no
/// gradient (`apply_op3_no_bwd` says so), and serves candle's CPU device: on a GPU, cudarc's slices do ([`crate::cudarc`]).
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a>(pub &'a Op);

fn tensor<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<TensorRef<'a>> {
    let (shape, stride) = (layout.shape().dims4()?, layout.stride());
    let shape = [shape.0, shape.1, shape.2, shape.3];
    let stride = [0, 1, 2, 3].map(|i| stride[i] as isize);
    let first = layout.start_offset();
    match storage {
        CpuStorage::F32(data) => TensorRef::strided(data, first, shape, stride),
        CpuStorage::F16(data) => TensorRef::strided(data, first, shape, stride),
        CpuStorage::BF16(data) => TensorRef::strided(data, first, shape, stride),
        _ => Err(crate::Error::InvalidArgument("a tensor is neither f32, f16 nor bf16".into())),
    }
    .map_err(Error::wrap)
}

impl CustomOp3 for Attention<'_> {
    fn name(&self) -> &'static str {
        "libfa-attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        k: &CpuStorage,
        k_layout: &Layout,
        v: &CpuStorage,
        v_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let [q_view, k_view, v_view] = [tensor(q, q_layout)?, tensor(k, k_layout)?, tensor(v, v_layout)?];
        let [batch, rows, heads, _] = q_view.shape();
        let out = match q {
            CpuStorage::F16(_) => self.0.attention::<f16>(q_view, k_view, v_view).map(CpuStorage::F16),
            CpuStorage::BF16(_) => self.0.attention::<bf16>(q_view, k_view, v_view).map(CpuStorage::BF16),
            _ => self.0.attention::<f32>(q_view, k_view, v_view).map(CpuStorage::F32),
        };
        Ok((out.map_err(Error::wrap)?, (batch, rows, heads, v_view.shape()[3]).into()))
    }
}
