//! The same model without libfa, a cache, a batch or drafts. Keys and values are rounded to the codes of the cache, so that nothing
//! but the order of sums differs.
use crate::model::{Model, DIM, HEADS, KV_HEADS};

fn rotate(row: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (first, second) = row.split_at_mut(DIM / 2);
    for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
    }
}

/// A row by way of 8-bit codes with a scale.
fn round(row: &mut [f32]) {
    let scale = row.iter().fold(0f32, |most, x| most.max(x.abs())) / 127.0;
    row.iter_mut().for_each(|x| *x = (*x / scale).round_ties_even() * scale);
}

/// Causal attention of tokens of HEADS + 2 KV_HEADS rows; (tokens, HEADS, DIM).
fn attention(heads: &[f32]) -> Vec<f32> {
    let rows = HEADS + 2 * KV_HEADS;
    let row = |token: usize, head: usize| &heads[(token * rows + head) * DIM..][..DIM];
    let mut out = Vec::new();
    for i in 0..heads.len() / (rows * DIM) {
        for head in 0..HEADS {
            let kv = HEADS + head / (HEADS / KV_HEADS);
            let dot = |j| row(i, head).iter().zip(row(j, kv)).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
            let scores: Vec<f64> = (0..=i).map(|j| dot(j) / (DIM as f64).sqrt()).collect();
            let most = scores.iter().copied().fold(f64::MIN, f64::max);
            let weights: Vec<f64> = scores.iter().map(|x| (x - most).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let value = |d: usize| {
                weights.iter().enumerate().map(|(j, p)| p * f64::from(row(j, kv + KV_HEADS)[d])).sum::<f64>()
            };
            out.extend((0..DIM).map(|d| (value(d) / sum) as f32));
        }
    }
    out
}

/// The most likely token after each one of the text.
pub fn best(model: &Model, text: &[usize]) -> Vec<usize> {
    let mut x = model.embedded(text);
    for layer in &model.layers {
        let mut heads = layer.heads(&x);
        for (i, row) in heads.chunks_exact_mut(DIM).enumerate() {
            let (token, head) = (i / (HEADS + 2 * KV_HEADS), i % (HEADS + 2 * KV_HEADS));
            if head < HEADS + KV_HEADS {
                rotate(row, &model.cos[token * DIM / 2..], &model.sin[token * DIM / 2..]);
            }
            if head >= HEADS {
                round(row);
            }
        }
        layer.rest(&mut x, &attention(&heads));
    }
    model.best(&x)
}
