//! Quantised keys and values: a result on codes is the result on their numbers.
use libfa::{DType, Device, ForwardArgs, Op, Result, TensorMut, TensorRef};

const SHAPE: [usize; 4] = [1, 40, 2, 32];
const ELEMENTS: usize = 40 * 2 * 32;

fn forward(op: &Op, q: &[f32], k: TensorRef<'_>, v: TensorRef<'_>, scale: Option<&[f32]>) -> Result<Vec<f32>> {
    let mut out = vec![0f32; 4 * 32];
    let mut args = ForwardArgs::new(TensorRef::new(q, [1, 1, 4, 32])?, k, v, TensorMut::new(&mut out, [1, 1, 4, 32])?);
    if let Some(scale) = scale {
        let view = TensorRef::new(scale, [1, 1, 2, 1])?;
        args = args.k_scale(view).v_scale(view);
    }
    op.forward(&mut args)?;
    Ok(out)
}

#[test]
fn codes_are_worth_what_scales_say() -> Result<()> {
    let q: Vec<f32> = (0..4 * 32).map(|i| (i as f32 * 0.7).sin()).collect();
    let scale = [0.03f32, 0.02];
    let codes: Vec<u8> = (0..ELEMENTS).map(|i| ((i * 37) % 251) as u8).collect();
    let head = |i: usize| i / 32 % 2;
    let numbers: Vec<f32> = codes.iter().enumerate().map(|(i, code)| f32::from(*code as i8) * scale[head(i)]).collect();
    let plain = Op::builder(DType::F32, 32).device(Device::Cpu).build()?;
    let view = || TensorRef::new(&numbers, SHAPE);
    let expected = forward(&plain, &q, view()?, view()?, None)?;

    let quantised = Op::builder(DType::F32, 32).dtype_kv(DType::I8).device(Device::Cpu).build()?;
    let codes = || TensorRef::codes(&codes, DType::I8, SHAPE);
    let found = forward(&quantised, &q, codes()?, codes()?, Some(&scale))?;
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-4, "{found} and {expected}");
    }

    let mixed = Op::builder(DType::F32, 32).dtype_kv(DType::F32).dtype_v(DType::Q8_0).device(Device::Cpu).build()?;
    let blocks = vec![0u8; ELEMENTS / 32 * 34];
    let zeros = forward(&mixed, &q, view()?, TensorRef::codes(&blocks, DType::Q8_0, SHAPE)?, None)?;
    assert!(zeros.iter().all(|x| *x == 0.));
    Ok(())
}

#[test]
fn keys_in_two_parts_are_those_of_one() -> Result<()> {
    let numbers = |count: usize, step: f32| -> Vec<f32> { (0..count).map(|i| (i as f32 * step).sin()).collect() };
    let (q, k, v) = (numbers(4 * 32, 0.7), numbers(ELEMENTS, 0.3), numbers(ELEMENTS, 0.9));
    let row =
        |d: std::ops::Range<usize>| -> Vec<f32> { k.chunks(32).flat_map(|row| row[d.clone()].to_vec()).collect() };
    let (first, last) = (row(0..24), row(24..32));
    let view = |x| TensorRef::new(x, SHAPE);
    let whole = Op::builder(DType::F32, 32).device(Device::Cpu).build()?;
    let expected = forward(&whole, &q, view(&k)?, view(&v)?, None)?;

    let divided = Op::builder(DType::F32, 32).head_dim_rope(8).device(Device::Cpu).build()?;
    let mut out = vec![0f32; 4 * 32];
    let k = TensorRef::new(&first, [1, 40, 2, 24])?;
    let args =
        ForwardArgs::new(TensorRef::new(&q, [1, 1, 4, 32])?, k, view(&v)?, TensorMut::new(&mut out, [1, 1, 4, 32])?);
    divided.forward(&mut args.k_rope(TensorRef::new(&last, [1, 40, 2, 8])?))?;
    for (found, expected) in out.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-5, "{found} and {expected}");
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_named() -> Result<()> {
    let codes = vec![0u8; ELEMENTS];
    let error = TensorRef::codes(&codes, DType::I4, SHAPE).unwrap_err();
    assert!(error.message().contains("I4") && error.message().contains("2560 bytes"), "{error}");
    let q = vec![0f32; 4 * 32];
    let op = Op::builder(DType::F32, 32).dtype_kv(DType::I8).device(Device::Cpu).build()?;
    let view = || TensorRef::codes(&codes, DType::I8, SHAPE);
    let error = forward(&op, &q, view()?, view()?, None).unwrap_err();
    assert!(error.message().contains("args.k_scale.data is NULL"), "{error}");
    Ok(())
}
