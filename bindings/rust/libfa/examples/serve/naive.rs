//! The same model without libfa, a cache, a batch or drafts. Keys and values are rounded to the codes of the cache, so that nothing
//! but the order of sums differs.
use crate::model::{Model, Sizes};

fn rotate(row: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (first, second) = row.split_at_mut(row.len() / 2);
    for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
    }
}

/// A row by way of 8-bit codes with a scale.
fn round(row: &mut [f32]) {
    let scale = row.iter().fold(0f32, |most, x| most.max(x.abs())) / 127.0;
    row.iter_mut().for_each(|x| *x = (*x / scale).round_ties_even() * scale);
}

/// Causal attention of tokens of all_heads rows; (tokens, heads, dim).
fn attention(heads: &[f32], s: &Sizes) -> Vec<f32> {
    let (rows, dim) = (s.all_heads(), s.dim);
    let row = |token: usize, head: usize| &heads[(token * rows + head) * dim..][..dim];
    let mut out = Vec::new();
    for i in 0..heads.len() / (rows * dim) {
        for head in 0..s.heads {
            let kv = s.heads + head / (s.heads / s.kv_heads);
            let dot = |j| row(i, head).iter().zip(row(j, kv)).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
            let scores: Vec<f64> = (0..=i).map(|j| dot(j) / (dim as f64).sqrt()).collect();
            let most = scores.iter().copied().fold(f64::MIN, f64::max);
            let weights: Vec<f64> = scores.iter().map(|x| (x - most).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let value = |d: usize| {
                weights.iter().enumerate().map(|(j, p)| p * f64::from(row(j, kv + s.kv_heads)[d])).sum::<f64>()
            };
            out.extend((0..dim).map(|d| (value(d) / sum) as f32));
        }
    }
    out
}

/// The most likely token after each one of the text.
pub fn best(model: &Model, text: &[usize]) -> Vec<usize> {
    let (s, mut x) = (&model.sizes, model.embedded(text));
    for layer in &model.layers {
        let mut heads = layer.heads(&x);
        for (i, row) in heads.chunks_exact_mut(s.dim).enumerate() {
            let (token, head) = (i / s.all_heads(), i % s.all_heads());
            if head < s.heads + s.kv_heads {
                rotate(row, &model.cos[token * s.dim / 2..], &model.sin[token * s.dim / 2..]);
            }
            if head >= s.heads {
                round(row);
            }
        }
        layer.rest(&mut x, &attention(&heads, s));
    }
    model.best(&x)
}
