//! Attention of three paragraphs packed one after another, as a real model's layers see them: f16 in, f32 out, compared with
//! the reference in the same folder as the data.
//!
//!   cargo run --example minilm -- ../../../examples/data
use std::path::Path;

use libfa::half::f16;
use libfa::{DType, ForwardArgs, Op, TensorMut, TensorRef};

/// The numbers of an .npy file behind its header, in elements of N bytes.
fn read<const N: usize, T>(path: &Path, number: fn([u8; N]) -> T) -> std::io::Result<Vec<T>> {
    let bytes = std::fs::read(path)?;
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    Ok(bytes[header..].chunks_exact(N).map(|element| number(element.try_into().unwrap())).collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or("examples/data".into());
    let folder = Path::new(&folder);
    let starts = read(&folder.join("cu_seqlens.npy"), i32::from_le_bytes)?;
    let (heads, dim, tokens) = (12, 32, starts[3] as usize);
    let shape = [1, tokens, heads, dim]; // packed: one batch entry that holds all sequences
    let attention = Op::builder(DType::F16, dim).dtype_out(DType::F32).build()?;

    for layer in ["layer0", "layer5"] {
        let half = |name: &str| read(&folder.join(format!("{layer}_{name}.npy")), f16::from_le_bytes);
        let (q, k, v) = (half("q")?, half("k")?, half("v")?);
        let (mut out, mut lse) = (vec![0f32; tokens * heads * dim], vec![0f32; tokens * heads]);
        let (q, k, v) = (TensorRef::new(&q, shape)?, TensorRef::new(&k, shape)?, TensorRef::new(&v, shape)?);
        let mut args = ForwardArgs::new(q, k, v, TensorMut::new(&mut out, shape)?)
            .lse(TensorMut::new(&mut lse, [1, heads, tokens, 1])?)
            .cu_seqlens_q(&starts)
            .cu_seqlens_k(&starts);
        attention.forward(&mut args)?;

        let reference = read(&folder.join(format!("{layer}_out.npy")), f32::from_le_bytes)?;
        let error = out.iter().zip(&reference).fold(0f32, |worst, (got, want)| worst.max((got - want).abs()));
        println!(
            "{layer} of {} tokens on {}: largest error {error:.1e}, first lse {:.3}",
            tokens,
            attention.kernel(),
            lse[0]
        );
        if error.is_nan() || error > 2e-3 {
            return Err("too far from the reference".into());
        }
    }
    Ok(())
}
