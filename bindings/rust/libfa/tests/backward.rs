//! Gradients against those of the formulas in double precision, and refused calls.
use libfa::half::{bf16, f16};
use libfa::{BackwardArgs, DType, Device, Element, Error, Mask, Op, TensorMut, TensorRef, Workspace};

const D: usize = 6;
const QUERIES: [usize; 4] = [2, 5, 4, D];
const KEYS: [usize; 4] = [2, 7, 2, D];
const ROWS: [usize; 4] = [2, 4, 5, 1];

/// Numbers that look random, the same in every run.
fn numbers(shape: [usize; 4], seed: f64) -> Vec<f32> {
    (0..shape.iter().product()).map(|i| (((i as f64 + seed) * 12.9898).sin() * 43758.5453).fract() as f32).collect()
}

struct Inputs {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    dout: Vec<f32>,
    dlse: Vec<f32>,
}

fn inputs() -> Inputs {
    let [q, dout] = [0.1, 0.4].map(|seed| numbers(QUERIES, seed));
    let [k, v] = [0.2, 0.3].map(|seed| numbers(KEYS, seed));
    Inputs { q, k, v, dout, dlse: numbers(ROWS, 0.5) }
}

fn view<T: Element>(data: &[T], shape: [usize; 4]) -> TensorRef<'_> {
    TensorRef::new(data, shape).unwrap()
}

/// Causal attention's lse and [dq, dk, dv] in double precision.
fn formulas(inputs: &Inputs, with_dlse: bool) -> [Vec<f64>; 3] {
    let [b_count, rows, heads, _] = QUERIES;
    let [_, keys, kv_heads, _] = KEYS;
    let [mut dq, mut dk, mut dv] = [QUERIES, KEYS, KEYS].map(|shape| vec![0f64; shape.iter().product()]);
    let scale = (D as f64).sqrt().recip();
    for (b, h, i) in (0..b_count * heads * rows).map(|n| (n / rows / heads, n / rows % heads, n % rows)) {
        let query = ((b * rows + i) * heads + h) * D;
        let key = |j: usize| ((b * keys + j) * kv_heads + h / (heads / kv_heads)) * D;
        let dot = |x: &[f32], at: usize, y: &[f32], other: usize| -> f64 {
            (0..D).map(|d| f64::from(x[at + d]) * f64::from(y[other + d])).sum()
        };
        let attended = i + keys - rows + 1;
        let weights: Vec<f64> =
            (0..attended).map(|j| (scale * dot(&inputs.q, query, &inputs.k, key(j))).exp()).collect();
        let total: f64 = weights.iter().sum();
        let gains: Vec<f64> = (0..attended).map(|j| dot(&inputs.dout, query, &inputs.v, key(j))).collect();
        let delta: f64 = weights.iter().zip(&gains).map(|(weight, gain)| weight / total * gain).sum();
        let dlse = if with_dlse { f64::from(inputs.dlse[(b * heads + h) * rows + i]) } else { 0. };
        for j in 0..attended {
            let p = weights[j] / total;
            let dx = scale * p * (gains[j] - delta + dlse);
            for d in 0..D {
                dq[query + d] += dx * f64::from(inputs.k[key(j) + d]);
                dk[key(j) + d] += dx * f64::from(inputs.q[query + d]);
                dv[key(j) + d] += p * f64::from(inputs.dout[query + d]);
            }
        }
    }
    [dq, dk, dv]
}

fn largest_difference<T: Copy + Into<f64>>(found: &[T], wanted: &[f64]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    found.iter().zip(wanted).map(|(a, b)| ((*a).into() - b).abs()).fold(0., f64::max)
}

#[test]
fn are_those_of_the_formulas() {
    let inputs = inputs();
    let (q, k, v) = (view(&inputs.q, QUERIES), view(&inputs.k, KEYS), view(&inputs.v, KEYS));
    let op = Op::builder(DType::F32, D).mask(Mask::Causal).build().unwrap();
    let (out, lse) = op.attention_with_lse::<f32>(q, k, v).unwrap();
    assert_eq!(out, op.attention::<f32>(q, k, v).unwrap());
    let (out, lse, dout) = (view(&out, QUERIES), view(&lse, ROWS), view(&inputs.dout, QUERIES));
    let found = op.gradients::<f32>(q, k, v, out, lse, dout).unwrap();
    for (found, wanted) in found.iter().zip(formulas(&inputs, false)) {
        assert!(largest_difference(found, &wanted) < 2e-6);
    }

    // The gradient of lse too, delta in place of out; other types, one added to its old contents, and none of v.
    let rows = |n: usize| (n / 20 * 5 + n % 5) * 4 + n / 5 % 4; // (B, H, S) of an index of (B, S, H)
    let outs = op.attention::<f32>(q, k, v).unwrap();
    let dot = |row: usize| (0..D).map(|d| outs[row * D + d] * inputs.dout[row * D + d]).sum();
    let delta: Vec<f32> = (0..40).map(|n| dot(rows(n))).collect();
    let (mut dq, mut dk) = (vec![1f32; inputs.q.len()], vec![f16::ZERO; inputs.k.len()]);
    let args = BackwardArgs::new(q, k, v, lse, dout)
        .delta(view(&delta, ROWS))
        .dlse(view(&inputs.dlse, ROWS))
        .add_to_dq(TensorMut::new(&mut dq, QUERIES).unwrap())
        .dk(TensorMut::new(&mut dk, KEYS).unwrap());
    let mut workspace = Workspace::new(op.backward_workspace_size(&args).unwrap()).unwrap();
    assert!(workspace.size() > 0);
    op.backward(&mut args.workspace(&mut workspace)).unwrap();
    let [wanted_dq, wanted_dk, _] = formulas(&inputs, true);
    let wanted_dq: Vec<f64> = wanted_dq.iter().map(|number| number + 1.).collect();
    assert!(largest_difference(&dq, &wanted_dq) < 2e-6 && largest_difference(&dk, &wanted_dk) < 2e-3);
}

#[test]
fn of_bias_and_sinks() {
    let inputs = inputs();
    let (q, k, v) = (view(&inputs.q, QUERIES), view(&inputs.k, KEYS), view(&inputs.v, KEYS));
    let (bias, sinks) = (numbers([1, 4, 1, 7], 0.6), numbers([1, 4, 1, 1], 0.7));
    let op = Op::builder(DType::F32, D).softcap(3.).build().unwrap();
    let loss = |bias: &[f32], sinks: &[f32]| -> (Vec<f32>, Vec<f32>, f64) {
        let (mut out, mut lse) = (vec![0f32; inputs.q.len()], vec![0f32; 40]);
        let (bias, sinks) = (view(bias, [1, 4, 1, 7]), view(sinks, [1, 4, 1, 1]));
        let args = libfa::ForwardArgs::new(q, k, v, TensorMut::new(&mut out, QUERIES).unwrap()).bias(bias).sinks(sinks);
        op.forward(&mut args.lse(TensorMut::new(&mut lse, ROWS).unwrap())).unwrap();
        let loss = out.iter().zip(&inputs.dout).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        (out, lse, loss)
    };
    let (out, lse, _) = loss(&bias, &sinks);
    let (mut dbias, mut dsinks) = (vec![0f32; 28], vec![0f32; 4]);
    let args = BackwardArgs::new(q, k, v, view(&lse, ROWS), view(&inputs.dout, QUERIES))
        .out(view(&out, QUERIES))
        .bias(view(&bias, [1, 4, 1, 7]))
        .sinks(view(&sinks, [1, 4, 1, 1]))
        .dbias(TensorMut::new(&mut dbias, [1, 4, 1, 7]).unwrap())
        .dsinks(TensorMut::new(&mut dsinks, [1, 4, 1, 1]).unwrap());
    op.backward(&mut { args }).unwrap();
    // Against differences.
    let moved = |numbers: &[f32], i: usize, by: f32| {
        let mut moved = numbers.to_vec();
        moved[i] += by;
        moved
    };
    for i in [0, 9, 27] {
        let wanted = (loss(&moved(&bias, i, 0.02), &sinks).2 - loss(&moved(&bias, i, -0.02), &sinks).2) / 0.04;
        assert!((f64::from(dbias[i]) - wanted).abs() < 1e-3, "{} {wanted}", dbias[i]);
    }
    for (i, found) in dsinks.iter().enumerate() {
        let wanted = (loss(&bias, &moved(&sinks, i, 0.02)).2 - loss(&bias, &moved(&sinks, i, -0.02)).2) / 0.04;
        assert!((f64::from(*found) - wanted).abs() < 1e-3, "{found} {wanted}");
    }
}

/// A change that makes a good call a bad one; it has room for gradients of either type.
type Change = dyn for<'a> Fn(BackwardArgs<'a>, &'a mut [f32], &'a mut [f16]) -> BackwardArgs<'a>;

#[test]
fn what_is_wrong_is_named() {
    let inputs = inputs();
    let (q, k, v) = (view(&inputs.q, QUERIES), view(&inputs.k, KEYS), view(&inputs.v, KEYS));
    let (lse, narrow) = (vec![0f32; 40], vec![bf16::ONE; inputs.q.len()]);
    let op = Op::builder(DType::F32, D).build().unwrap();
    let refused = |words: &[&str], change: &Change| {
        let (mut gradient, mut half) = (vec![7f32; inputs.q.len()], vec![f16::ONE; inputs.q.len()]);
        let plain = BackwardArgs::new(q, k, v, view(&lse, ROWS), view(&inputs.dout, QUERIES)).out(q);
        let error = op.backward(&mut change(plain, &mut gradient, &mut half)).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
        for word in words {
            assert!(error.message().contains(word), "{word:?} is not in {:?}", error.message());
        }
        assert_eq!(gradient, vec![7f32; gradient.len()], "nothing is written");
    };
    refused(&["args.dq.shape"], &|args, dq, _| args.dq(TensorMut::new(&mut dq[..168], KEYS).unwrap()));
    refused(&["FA_ACCUMULATE_DQ", "args.dq is of FA_F16; expected FA_F32"], &|args, _, dq| {
        args.add_to_dq(TensorMut::new(dq, QUERIES).unwrap())
    });
    refused(&["args.dbias", "bias"], &|args, dbias, _| {
        args.dbias(TensorMut::new(&mut dbias[..7], [1, 1, 1, 7]).unwrap())
    });
    refused(&["args.seqused_k has 3 entries; expected 2"], &|args, _, _| args.seqused_k(&[1, 2, 3]));
    refused(&["mixed devices", "args.dq "], &|args, _, _| {
        args.dq(unsafe { TensorMut::on_device(256 as *mut _, DType::F32, QUERIES, [120, 24, 6, 1]) }.unwrap())
    });
    let bare = |dout| BackwardArgs::new(q, k, v, view(&lse, ROWS), dout);
    let text = op.backward(&mut bare(view(&inputs.dout, QUERIES))).unwrap_err().to_string();
    assert!(text.contains("args.out") && text.contains("delta"), "{text}");
    let text = op.backward(&mut bare(view(&narrow, [2, 5, 2, 2 * D])).out(q)).unwrap_err().to_string();
    assert!(text.contains("args.dout.shape"), "{text}");
    if let Ok(cuda) = Op::builder(DType::F32, D).device(Device::Cuda(0)).build() {
        assert!(cuda.backward(&mut bare(q)).unwrap_err().message().contains("CUDA"));
    }
}
