//! Results over parts of the keys, merged, are those over all; and merges that are refused.
use libfa::half::f16;
use libfa::{DType, Error, ForwardArgs, Mask, MergeArgs, Op, TensorMut, TensorRef, Workspace};

const D: usize = 8;
const QUERIES: [usize; 4] = [2, 5, 4, D];
const ROWS: [usize; 4] = [2, 4, 5, 1];
const KEYS: usize = 40;

fn numbers(count: usize, seed: f64) -> Vec<f32> {
    (0..count).map(|i| (((i as f64 + seed) * 12.9898).sin() * 43758.5453).fract() as f32).collect()
}

/// out and lse over keys `first .. end`.
fn over(op: &Op, first: usize, end: usize) -> (Vec<f32>, Vec<f32>) {
    let (q, k, v) = (numbers(2 * 5 * 4 * D, 0.1), numbers(2 * KEYS * 4 * D, 0.2), numbers(2 * KEYS * 4 * D, 0.3));
    let (mut out, mut lse) = (vec![0f32; q.len()], vec![0f32; 2 * 4 * 5]);
    let shape = [2, end - first, 4, D];
    let stride = [KEYS * 4 * D, 4 * D, D, 1].map(|step| step as isize);
    let [k, v] = [&k, &v].map(|data| TensorRef::strided(data, first * 4 * D, shape, stride).unwrap());
    let q = TensorRef::new(&q, QUERIES).unwrap();
    let mut args = ForwardArgs::new(q, k, v, TensorMut::new(&mut out, QUERIES).unwrap())
        .lse(TensorMut::new(&mut lse, ROWS).unwrap());
    op.forward(&mut args).unwrap();
    (out, lse)
}

fn close(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip(b).all(|(x, y)| (x - y).abs() < 2e-6)
}

#[test]
fn parts_of_the_keys_are_the_whole() {
    let op = Op::builder(DType::F32, D).build().unwrap();
    let (whole, whole_lse) = over(&op, 0, KEYS);
    let parts = [(0, 3), (3, 20), (20, KEYS)].map(|(first, end)| over(&op, first, end));
    let (mut out, mut lse) = (vec![0f32; whole.len()], vec![0f32; whole_lse.len()]);
    let mut args =
        MergeArgs::new(TensorMut::new(&mut out, QUERIES).unwrap()).lse(TensorMut::new(&mut lse, ROWS).unwrap());
    for (out, lse) in &parts {
        args = args.part(TensorRef::new(out, QUERIES).unwrap(), TensorRef::new(lse, ROWS).unwrap());
    }
    let mut workspace = Workspace::new(op.merge_workspace_size(&args).unwrap()).unwrap();
    op.merge(&mut args.workspace(&mut workspace)).unwrap();
    assert!(close(&out, &whole) && close(&lse, &whole_lse));

    // In place, with a mask that leaves out a query.
    let [(mut first, mut first_lse), (second, second_lse), (third, third_lse)] = parts;
    let before = first.clone();
    let mask = [true, false, true, true, true];
    let mut args = MergeArgs::in_place(
        TensorMut::new(&mut first, QUERIES).unwrap(),
        TensorMut::new(&mut first_lse, ROWS).unwrap(),
    )
    .part(TensorRef::new(&second, QUERIES).unwrap(), TensorRef::new(&second_lse, ROWS).unwrap())
    .part(TensorRef::new(&third, QUERIES).unwrap(), TensorRef::new(&third_lse, ROWS).unwrap())
    .mask(TensorRef::new(&mask, [1, 1, 5, 1]).unwrap());
    op.merge(&mut args).unwrap();
    for (i, row) in first.chunks(4 * D).enumerate() {
        let expected = if mask[i % 5] { &whole } else { &before };
        assert!(close(row, &expected[i * 4 * D..]), "row {i}");
    }
}

#[test]
fn types_bases_and_parts_without_keys() {
    let op = Op::builder(DType::F16, 2).build().unwrap();
    let (shape, rows) = ([1, 1, 1, 2], [1, 1, 1, 1]);
    let (a, b, nothing) = ([f16::from_f32(1.0), f16::from_f32(5.0)], [3f32, 9.0], [f32::NAN; 2]);
    let (lse_a, lse_b, none) = ([1f32], [2f32], [f32::NEG_INFINITY]);
    let (mut out, mut lse) = ([f16::ZERO; 2], [0f32]);
    let mut args = MergeArgs::new(TensorMut::new(&mut out, shape).unwrap())
        .lse(TensorMut::new(&mut lse, rows).unwrap())
        .part(TensorRef::new(&a, shape).unwrap(), TensorRef::new(&lse_a, rows).unwrap())
        .part(TensorRef::new(&nothing, shape).unwrap(), TensorRef::new(&none, rows).unwrap())
        .part(TensorRef::new(&b, shape).unwrap(), TensorRef::new(&lse_b, rows).unwrap())
        .base_2(true); // weights of 1 and 2
    op.merge(&mut args).unwrap();
    assert!((out[0].to_f32() - 7.0 / 3.0).abs() < 2e-3 && (out[1].to_f32() - 23.0 / 3.0).abs() < 4e-3, "{out:?}");
    assert!((lse[0] - 6f32.log2()).abs() < 1e-6, "{lse:?}");
}

#[test]
fn refusals() {
    let op = Op::builder(DType::F32, D).mask(Mask::Causal).build().unwrap();
    let (numbers, lse) = (vec![0f32; 3 * D], [0f32; 3]);
    let mut out = vec![0f32; 3 * D];
    let part = |rows: usize| TensorRef::new(&numbers[..rows * D], [1, rows, 1, D]).unwrap();
    let sums = |rows: usize| TensorRef::new(&lse[..rows], [1, 1, rows, 1]).unwrap();
    let mut run = |parts: &[(usize, usize)], words: &[&str]| {
        let mut args = MergeArgs::new(TensorMut::new(&mut out, [1, 3, 1, D]).unwrap());
        for (rows, of_lse) in parts {
            args = args.part(part(*rows), sums(*of_lse));
        }
        let Err(Error::InvalidArgument(text)) = op.merge(&mut args) else { panic!("it ran: {words:?}") };
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert!(matches!(op.merge_workspace_size(&args), Err(Error::InvalidArgument(_))));
    };
    run(&[], &["args.num_parts is 0", "1 .. 32"]);
    run(&[(3, 3); 33], &["args.num_parts is 33", "1 .. 32"]);
    run(&[(3, 3), (2, 3)], &["args.outs[1].shape[1] is 2", "expected 3"]);
    run(&[(3, 3), (3, 1)], &["args.lses[1].shape[2] is 1", "expected 3"]);
}
