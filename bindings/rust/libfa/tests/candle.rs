//! candle's tensors, against candle's own operations on them, and its own gradients.
#![cfg(feature = "candle")]

use std::sync::Arc;

use libfa::candle::candle_core::{DType as Type, Device, Result, Tensor, Var, D};
use libfa::candle::Attention;
use libfa::{DType, Mask, Op};

/// (B, S, H, D) in, (B, S, H, D) out, by candle's products in f32, or f64 where q is that; heads of k and v repeat.
fn expected(q: &Tensor, k: &Tensor, v: &Tensor, causal: bool) -> Result<Tensor> {
    let group = q.dim(2)? / k.dim(2)?;
    let wide = if q.dtype() == Type::F64 { Type::F64 } else { Type::F32 };
    let heads_first = |t: &Tensor| t.to_dtype(wide)?.transpose(1, 2)?.contiguous();
    let repeated = |t: &Tensor| {
        let (b, h, s, d) = t.dims4()?;
        t.unsqueeze(2)?.expand((b, h, group, s, d))?.reshape((b, h * group, s, d))
    };
    let (q, k, v) = (heads_first(q)?, repeated(&heads_first(k)?)?, repeated(&heads_first(v)?)?);
    let mut scores = (q.matmul(&k.t()?.contiguous()?)? / (q.dim(3)? as f64).sqrt())?;
    if causal {
        let (rows, keys) = (q.dim(2)?, k.dim(2)?);
        let mask: Vec<f32> =
            (0..rows * keys).map(|i| if i % keys > i / keys + keys - rows { f32::NEG_INFINITY } else { 0. }).collect();
        scores = scores.broadcast_add(&Tensor::from_vec(mask, (rows, keys), &Device::Cpu)?.to_dtype(wide)?)?;
    }
    let weights = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
    let weights = weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)?;
    weights.matmul(&v)?.transpose(1, 2)
}

fn largest_difference(a: &Tensor, b: &Tensor) -> Result<f32> {
    (a.to_dtype(Type::F32)? - b)?.abs()?.flatten_all()?.max(0)?.to_scalar()
}

#[test]
fn tensors_of_any_type_and_stride() -> Result<()> {
    for (dtype, ours, bound) in
        [(Type::F32, DType::F32, 3e-6), (Type::F16, DType::F16, 2e-3), (Type::BF16, DType::BF16, 2e-2)]
    {
        for causal in [false, true] {
            let packed = Tensor::randn(0f32, 1., (2, 60, 4, 48), &Device::Cpu)?.to_dtype(dtype)?; // q, k and v behind each other
            let q = Tensor::randn(0f32, 1., (2, 4, 37, 16), &Device::Cpu)?.to_dtype(dtype)?.transpose(1, 2)?;
            let k = packed.narrow(3, 16, 16)?.narrow(2, 1, 2)?;
            let v = packed.narrow(3, 32, 16)?.narrow(2, 0, 2)?;
            let mask = if causal { Mask::Causal } else { Mask::None };
            let op = Op::builder(ours, 16).mask(mask).build().unwrap();
            let out = q.apply_op3_no_bwd(&k, &v, &Attention(&op))?;
            assert_eq!((out.dims(), out.dtype()), ([2, 37, 4, 16].as_slice(), dtype));
            let difference = largest_difference(&out, &expected(&q, &k, &v, causal)?)?;
            assert!(difference < bound, "{dtype:?} {causal}: {difference}");
        }
    }
    Ok(())
}

/// Of the sum of the result of `attention`, element by element times `weights`.
fn gradients(
    inputs: [&Var; 3],
    weights: &Tensor,
    attention: impl Fn([&Tensor; 3]) -> Result<Tensor>,
) -> Result<[Tensor; 3]> {
    let out = attention(inputs.map(Var::as_tensor))?;
    let loss = (out.to_dtype(weights.dtype())? * weights)?.sum_all()?;
    let gradients = loss.backward()?;
    Ok(inputs.map(|input| gradients.get(input).unwrap().clone()))
}

#[test]
fn gradients_are_those_of_candle_in_double_precision() -> Result<()> {
    for (dtype, ours, bound) in
        [(Type::F32, DType::F32, 5e-6), (Type::F16, DType::F16, 5e-3), (Type::BF16, DType::BF16, 4e-2)]
    {
        let op = Arc::new(Op::builder(ours, 16).mask(Mask::Causal).build().unwrap());
        let weights = Tensor::randn(0f32, 1., (2, 9, 4, 16), &Device::Cpu)?;
        let input = |rows, heads| {
            Var::from_tensor(&Tensor::randn(0f32, 1., (2, heads, rows, 16), &Device::Cpu)?.to_dtype(dtype)?)
        };
        let narrow = [input(9, 4)?, input(13, 2)?, input(13, 2)?];
        let bshd = |inputs: [&Tensor; 3]| -> Result<[Tensor; 3]> {
            Ok([inputs[0].transpose(1, 2)?, inputs[1].transpose(1, 2)?, inputs[2].transpose(1, 2)?])
        };
        let found = gradients(narrow.each_ref(), &weights, |inputs| {
            let [q, k, v] = bshd(inputs)?;
            q.apply_op3(&k, &v, Attention(op.clone()))
        })?;
        let exact = |input: &Var| Var::from_tensor(&input.to_dtype(Type::F64)?);
        let exact = [exact(&narrow[0])?, exact(&narrow[1])?, exact(&narrow[2])?];
        let wanted = gradients(exact.each_ref(), &weights.to_dtype(Type::F64)?, |inputs| {
            let [q, k, v] = bshd(inputs)?;
            expected(&q, &k, &v, true)
        })?;
        for (gradient, want) in found.iter().zip(&wanted) {
            assert_eq!((gradient.dims(), gradient.dtype()), (want.dims(), dtype));
            let difference = largest_difference(gradient, &want.to_dtype(Type::F32)?)?;
            assert!(difference < bound, "{dtype:?}: {difference}");
        }
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_named() {
    let op = Op::builder(DType::F32, 16).build().unwrap();
    let q = Tensor::zeros((1, 5, 2, 16), Type::F32, &Device::Cpu).unwrap();
    let refused = |k: &Tensor, word: &str| {
        let text = q.apply_op3_no_bwd(k, &q, &Attention(&op)).unwrap_err().to_string();
        assert!(text.contains(word), "{text}");
    };
    refused(&Tensor::zeros((1, 5, 2, 8), Type::F32, &Device::Cpu).unwrap(), "args.k.shape[3] is 8");
    refused(&Tensor::zeros((5, 2, 16), Type::F32, &Device::Cpu).unwrap(), "rank");
    refused(&q.to_dtype(Type::F16).unwrap(), "args.k.dtype");
}

#[test]
fn tensors_of_other_types_are_refused_by_name() {
    let op = Arc::new(Op::builder(DType::F32, 16).build().unwrap());
    let zeros = |dtype| Tensor::zeros((1, 5, 2, 16), dtype, &Device::Cpu).unwrap();
    for dtype in [Type::U8, Type::U32, Type::I16, Type::I32, Type::I64, Type::F64, Type::F8E4M3] {
        for (place, name) in ["q", "k", "v"].into_iter().enumerate() {
            let [q, k, v] = [0, 1, 2].map(|at| zeros(if at == place { dtype } else { Type::F32 }));
            let text = q.apply_op3(&k, &v, Attention(op.clone())).unwrap_err().to_string();
            let expected = format!("{name} has dtype {}; expected f32, f16 or bf16", dtype.as_str());
            assert!(text.contains(&expected), "{name} of {dtype:?}: {text}");
        }
    }
}
