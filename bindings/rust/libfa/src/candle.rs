//! candle's tensors on the CPU, in place, whatever their strides are.
//!
//! The candle is that of [`candle_core`], which is exported again here. Where a project has another version itself, two candles may be
//! built, and tensors of one are no tensors of the other. `cargo update -p candle-core@<newest> --precise 0.9.2`, with the two
//! versions that `cargo tree -d` names, leaves one.
use std::borrow::Borrow;
use std::ops::Deref;

use ::candle_core::backend::BackendStorage;
use ::candle_core::{CpuStorage, CustomOp3, DType, Device, Error, Layout, Result, Shape, Storage, Tensor};
use half::{bf16, f16};

use crate::{Op, TensorRef};

pub use ::candle_core;

/// An op as one of candle's, of tensors `q` (B, Sq, Hq, D), `k` (B, Sk, Hkv, D) and `v` (B, Sk, Hkv, Dv) as candle-flash-attn has
/// them: a tensor (B, Sq, Hq, Dv) of q's type. Heads of `k` and `v` may be fewer.
///
/// ```
/// use libfa::candle::candle_core::{Device, Tensor, Var};
/// use libfa::{candle::Attention, DType, Mask, Op};
///
/// let op = std::sync::Arc::new(Op::builder(DType::F32, 64).mask(Mask::Causal).build()?);
/// let q = Var::randn(0f32, 1., (1, 8, 128, 64), &Device::Cpu)?; // (B, H, S, D) in memory: no copy
/// let k = Tensor::randn(0f32, 1., (1, 128, 2, 64), &Device::Cpu)?;
/// let out = q.transpose(1, 2)?.apply_op3(&k, &k, Attention(op.clone()))?;
/// assert_eq!(out.dims(), [1, 128, 8, 64]);
/// let gradients = out.sqr()?.sum_all()?.backward()?;
/// assert_eq!(gradients.get(&q).unwrap().dims(), [1, 8, 128, 64]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It holds an `Arc<Op>`, an `Op`, or a `&Op` where there is nothing to differentiate, as in
/// `q.apply_op3_no_bwd(&k, &v, &Attention(&op))`. The backward pass computes the forward pass once more, as candle keeps of an op
/// nothing but its result, and the gradients of q, k and v always.
///
/// # Errors
/// Those of [`Op::attention`] and [`Op::gradients`], as candle's; tensors that have other than four dimensions or are not f32, f16
/// or bf16. It supports candle's CPU device; for a GPU there are cudarc's slices ([`crate::cudarc`]).
#[derive(Clone, Copy, Debug)]
pub struct Attention<O>(pub O);

fn tensor<'a>(name: &str, storage: &'a CpuStorage, layout: &Layout) -> Result<TensorRef<'a>> {
    let (shape, stride) = (layout.shape().dims4()?, layout.stride());
    let shape = [shape.0, shape.1, shape.2, shape.3];
    let stride = [0, 1, 2, 3].map(|i| stride[i] as isize);
    let first = layout.start_offset();
    match storage {
        CpuStorage::F32(data) => TensorRef::strided(data, first, shape, stride),
        CpuStorage::F16(data) => TensorRef::strided(data, first, shape, stride),
        CpuStorage::BF16(data) => TensorRef::strided(data, first, shape, stride),
        _ => {
            let dtype = storage.dtype().as_str();
            Err(crate::Error::InvalidArgument(format!("{name} has dtype {dtype}; expected f32, f16 or bf16")))
        }
    }
    .map_err(Error::wrap)
}

/// The contents of a tensor, by Tensor::storage_and_layout.
fn view<'a>(name: &str, (storage, layout): &'a (impl Deref<Target = Storage>, &Layout)) -> Result<TensorRef<'a>> {
    match &**storage {
        Storage::Cpu(storage) => tensor(name, storage, layout),
        _ => Err(Error::wrap(crate::Error::Unsupported(format!("{name} is on a GPU; expected candle's CPU device")))),
    }
}

/// The logarithms of each query's sum.
fn lse(op: &Op, dtype: DType, q: TensorRef<'_>, k: TensorRef<'_>, v: TensorRef<'_>) -> crate::Result<Vec<f32>> {
    Ok(match dtype {
        DType::F16 => op.attention_with_lse::<f16>(q, k, v)?.1,
        DType::BF16 => op.attention_with_lse::<bf16>(q, k, v)?.1,
        _ => op.attention_with_lse::<f32>(q, k, v)?.1,
    })
}

impl<O: Borrow<Op>> CustomOp3 for Attention<O> {
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
        let op = self.0.borrow();
        let [q_view, k_view, v_view] =
            [tensor("q", q, q_layout)?, tensor("k", k, k_layout)?, tensor("v", v, v_layout)?];
        let [batch, rows, heads, _] = q_view.shape();
        let out = match q {
            CpuStorage::F16(_) => op.attention::<f16>(q_view, k_view, v_view).map(CpuStorage::F16),
            CpuStorage::BF16(_) => op.attention::<bf16>(q_view, k_view, v_view).map(CpuStorage::BF16),
            _ => op.attention::<f32>(q_view, k_view, v_view).map(CpuStorage::F32),
        };
        Ok((out.map_err(Error::wrap)?, (batch, rows, heads, v_view.shape()[3]).into()))
    }

    fn bwd(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        out: &Tensor,
        dout: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let op = self.0.borrow();
        let memory = [q, k, v, out, dout].map(Tensor::storage_and_layout);
        let [q_view, k_view, v_view] = [view("q", &memory[0])?, view("k", &memory[1])?, view("v", &memory[2])?];
        let [batch, rows, heads, _] = q_view.shape();
        let lse = lse(op, out.dtype(), q_view, k_view, v_view).map_err(Error::wrap)?;
        let lse = TensorRef::new(&lse, [batch, heads, rows, 1]).map_err(Error::wrap)?;
        // In f32, and each rounded once to the type of its input.
        let [dq, dk, dv] = op
            .gradients::<f32>(q_view, k_view, v_view, view("out", &memory[3])?, lse, view("dout", &memory[4])?)
            .map_err(Error::wrap)?;
        let gradient = |data, like: &Tensor| Tensor::from_vec(data, like.shape(), &Device::Cpu)?.to_dtype(like.dtype());
        Ok((Some(gradient(dq, q)?), Some(gradient(dk, k)?), Some(gradient(dv, v)?)))
    }
}
