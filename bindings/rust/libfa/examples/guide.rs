//! The programs of docs/guides/rust.md: one call, packed sequences, gradients, a cache, an error.
use libfa::half::f16;
use libfa::{AppendArgs, DType, ForwardArgs, Mask, Op, Result, TensorMut, TensorRef};

/// Numbers that look random.
fn numbers(shape: [usize; 4], seed: f32) -> Vec<f32> {
    (0..shape.iter().product()).map(|i| ((i as f32 + seed) * 12.9898).sin()).collect()
}

fn one_call() -> Result<()> {
    let (queries, keys) = ([1, 128, 4, 64], [1, 128, 2, 64]); // batch, sequence, heads, head dimension
    let (q, k, v) = (numbers(queries, 0.1), numbers(keys, 0.2), numbers(keys, 0.3));
    let op = Op::builder(DType::F32, 64).mask(Mask::Causal).window_left(32).build()?;
    let out: Vec<f32> =
        op.attention(TensorRef::new(&q, queries)?, TensorRef::new(&k, keys)?, TensorRef::new(&v, keys)?)?;
    println!("{} numbers by {}", out.len(), op.kernel());
    Ok(())
}

fn packed() -> Result<()> {
    let shape = [1, 15, 4, 32]; // all sequences one after another, in a batch of 1
    let starts = [0, 5, 7, 15];
    let (q, k, v, mut out) = (numbers(shape, 0.1), numbers(shape, 0.2), numbers(shape, 0.3), numbers(shape, 0.));
    let op = Op::builder(DType::F32, 32).mask(Mask::Causal).build()?;
    let (q, k, v) = (TensorRef::new(&q, shape)?, TensorRef::new(&k, shape)?, TensorRef::new(&v, shape)?);
    let args = ForwardArgs::new(q, k, v, TensorMut::new(&mut out, shape)?);
    op.forward(&mut args.cu_seqlens_q(&starts).cu_seqlens_k(&starts))
}

fn gradients() -> Result<()> {
    let (shape, rows) = ([1, 64, 4, 32], [1, 4, 64, 1]);
    let (q, k, v, dout) = (numbers(shape, 0.1), numbers(shape, 0.2), numbers(shape, 0.3), numbers(shape, 0.4));
    let (q, k, v) = (TensorRef::new(&q, shape)?, TensorRef::new(&k, shape)?, TensorRef::new(&v, shape)?);
    let op = Op::builder(DType::F32, 32).mask(Mask::Causal).build()?;
    let (out, lse) = op.attention_with_lse::<f32>(q, k, v)?;
    let (out, lse, dout) = (TensorRef::new(&out, shape)?, TensorRef::new(&lse, rows)?, TensorRef::new(&dout, shape)?);
    let [dq, dk, dv] = op.gradients::<f32>(q, k, v, out, lse, dout)?;
    println!("{} + {} + {} gradients", dq.len(), dk.len(), dv.len());
    Ok(())
}

fn cache() -> Result<()> {
    let (new, room) = ([2, 3, 2, 32], [2, 64, 2, 32]);
    let (k, v) = (numbers(new, 0.1), numbers(new, 0.2));
    let (mut k_cache, mut v_cache) = (vec![f16::ZERO; 2 * 64 * 2 * 32], vec![f16::ZERO; 2 * 64 * 2 * 32]);
    let held = [10, 20]; // tokens of each sequence that the cache has
    let op = Op::builder(DType::F32, 32).dtype_kv(DType::F16).build()?;
    let (k_cache, v_cache) = (TensorMut::new(&mut k_cache, room)?, TensorMut::new(&mut v_cache, room)?);
    let args = AppendArgs::new(TensorRef::new(&k, new)?, TensorRef::new(&v, new)?, k_cache, v_cache);
    op.append(&mut args.cache_seqlens(&held))
}

fn main() -> Result<()> {
    one_call()?;
    packed()?;
    gradients()?;
    cache()?;
    let error = Op::builder(DType::F32, 1000).build().unwrap_err();
    println!("{error}");
    assert!(error.message().contains("head_dim is 1000"));
    Ok(())
}
