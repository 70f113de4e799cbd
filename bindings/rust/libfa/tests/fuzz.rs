//! Bad input, by chance: calls of which a few things are wrong are refused with a text or computed, and touch nothing but their
//! output. FA_FUZZ_ITERATIONS and FA_FUZZ_SEED choose how many and which.
mod support;

use std::cell::Cell;

use libfa::sys::*;
use libfa::{Error, ForwardArgs, Mask, Op, Workspace};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use support::{dtype, Memory, Tensor};

const NAMES: [&str; 10] = ["q", "k", "v", "out", "lse", "bias", "mask", "alibi_slopes", "sinks", "block_table"];
const ARRAYS: [&str; 7] =
    ["cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "leftpad_k", "kv_batch_idx", "q_offset"];

/// One thing that is changed in a good call.
#[derive(Clone, Debug)]
enum Change {
    Shape(usize, usize, usize), // of which tensor, which axis, the new length
    Stride(usize, usize, isize),
    Type(usize, i32),
    First(usize, usize),
    Length(usize, usize), // of which array
    Entry(usize, usize, i32),
    Number(usize, usize),
    Float(usize, f32),
    Page(usize, i32), // of the block table
}

fn change() -> impl Strategy<Value = Change> {
    let size = prop_oneof![4 => 0..9usize, 1 => Just(usize::MAX), 1 => Just(1 << 40), 1 => Just(1 << 31)];
    let step = prop_oneof![4 => -9..70isize, 1 => Just(isize::MIN), 1 => Just(isize::MAX), 1 => Just(1isize << 60)];
    let entry = prop_oneof![4 => -3..9i32, 1 => Just(i32::MIN), 1 => Just(i32::MAX)];
    let float = prop_oneof![any::<f32>(), -2.0..2.0f32];
    prop_oneof![
        (0..10usize, 0..4usize, size.clone()).prop_map(|(t, axis, to)| Change::Shape(t, axis, to)),
        (0..10usize, 0..4usize, step).prop_map(|(t, axis, to)| Change::Stride(t, axis, to)),
        (0..10usize, 1..6i32).prop_map(|(t, to)| Change::Type(t, to)),
        (0..10usize, 0..40usize).prop_map(|(t, to)| Change::First(t, to)),
        (0..7usize, 0..5usize).prop_map(|(a, to)| Change::Length(a, to)),
        (0..7usize, 0..4usize, entry.clone()).prop_map(|(a, at, to)| Change::Entry(a, at, to)),
        (0..9usize, size).prop_map(|(field, to)| Change::Number(field, to)),
        (0..2usize, entry).prop_map(|(at, to)| Change::Page(at, to)),
        (0..2usize, float).prop_map(|(field, to)| Change::Float(field, to)),
    ]
}

/// A call: which optional tensors and arrays it has, its types, and the changes.
fn call() -> impl Strategy<Value = (u32, [i32; 3], Vec<Change>)> {
    // Few optional things at a time: many of them are refused together.
    let present = (any::<u32>(), any::<u32>(), any::<bool>()).prop_map(|(a, b, some)| if some { a & b } else { 0 });
    (present, [1..4i32, 1..4i32, 1..4i32], prop::collection::vec(change(), 0..4))
}

fn tensor(name: &str, dtype: i32, shape: [usize; 4]) -> Tensor {
    let bytes = shape.iter().product::<usize>() * if matches!(dtype, FA_F16 | FA_BF16) { 2 } else { 4 };
    let stride = [shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1].map(|step| step as isize);
    // 0 in every type, and a page that is there.
    Tensor { name: name.into(), dtype, shape, stride, memory: Memory::new(&vec![0; bytes.max(64)]), first: 0 }
}

fn run(present: u32, types: [i32; 3], changes: &[Change]) -> libfa::Result<()> {
    let (b, sq, sk, hq, hkv, d) = (2, 3, 5, 2, 1, 4);
    let has = |bit: usize| present >> bit & 1 == 1;
    let packed_q = has(10);
    let batch_q = if packed_q { [1, b * sq] } else { [b, sq] };
    let batch_k = if has(11) { [1, b * sk] } else { [b, sk] };
    let mut tensors = vec![
        tensor("q", types[0], [batch_q[0], batch_q[1], hq, d]),
        tensor("k", types[1], [batch_k[0], batch_k[1], hkv, d]),
        tensor("v", types[1], [batch_k[0], batch_k[1], hkv, d]),
        tensor("out", types[2], [batch_q[0], batch_q[1], hq, d]),
        tensor("lse", FA_F32, [batch_q[0], hq, batch_q[1], 1]),
        tensor("bias", FA_F32, [1, hq, 1, 1]),
        tensor("mask", FA_BOOL, [1, 1, 1, 1]),
        tensor("alibi_slopes", FA_F32, [1, hq, 1, 1]),
        tensor("sinks", FA_F32, [b, hq, 1, 1]),
        tensor("block_table", FA_I32, [b, 1, 1, 1]),
    ];
    let offsets = |rows: i32| vec![0, rows, 2 * rows];
    let mut arrays =
        [offsets(sq as i32), offsets(sk as i32), vec![1, 2], vec![3, 5], vec![0, 1], vec![1, 0], vec![-1, 3]];
    let mut numbers = [0usize; 9];
    let mut floats = [0f32; 2];
    for change in changes {
        match *change {
            Change::Shape(t, axis, to) => tensors[t].shape[axis] = to,
            Change::Stride(t, axis, to) => tensors[t].stride[axis] = to,
            Change::Type(t, to) => tensors[t].dtype = to,
            Change::First(t, to) => tensors[t].first = 4 * to,
            Change::Length(a, to) => arrays[a].resize(to, 1),
            Change::Entry(a, at, to) => drop(arrays[a].get_mut(at).map(|entry| *entry = to)),
            Change::Number(field, to) => numbers[field] = to,
            Change::Float(field, to) => floats[field] = to,
            Change::Page(at, to) => {
                tensors[9].memory.bytes_mut()[4 * at..4 * at + 4].copy_from_slice(&to.to_ne_bytes())
            }
        }
    }
    // An output is written in its own type or not at all; memory around it stays.
    let mut outputs: Vec<Tensor> = tensors[3..5].to_vec();
    outputs.iter_mut().for_each(|output| output.memory.bytes_mut().fill(0xa5));
    let before = outputs.clone();
    let result = forward(has, types, &tensors, &mut outputs, &arrays, &numbers, &floats);
    for (then, now) in before.iter().zip(&outputs) {
        let same = then.memory.bytes() == now.memory.bytes();
        assert!(result.is_ok() || same, "{}: refused, but written", now.name);
    }
    result
}

fn forward(
    has: impl Fn(usize) -> bool,
    types: [i32; 3],
    tensors: &[Tensor],
    outputs: &mut [Tensor],
    arrays: &[Vec<i32>; 7],
    numbers: &[usize; 9],
    floats: &[f32; 2],
) -> libfa::Result<()> {
    let kind = |raw: i32| dtype(f64::from(raw));
    let mut builder = Op::builder(kind(types[0]), 4).dtype_kv(kind(types[1])).dtype_out(kind(types[2]));
    builder = builder.softmax_scale(floats[0]).softcap(floats[1]).num_threads(numbers[0] % 4);
    builder = builder.mask([Mask::None, Mask::Causal, Mask::CausalTopLeft][numbers[1] % 3]);
    if numbers[2] != 0 {
        builder = builder.window_left(numbers[2]).window_right(numbers[3]);
    }
    let op = builder.attention_chunk(numbers[4]).batch_invariant(has(20)).build()?;

    let [out, lse] = outputs else { unreachable!() };
    let mut args = ForwardArgs::new(tensors[0].view()?, tensors[1].view()?, tensors[2].view()?, out.view_mut()?);
    if has(4) {
        args = args.lse(lse.view_mut()?);
    }
    for (bit, name) in NAMES.iter().enumerate().skip(5) {
        if !has(bit) {
            continue;
        }
        let view = tensors[bit].view()?;
        args = match *name {
            "bias" => args.bias(view),
            "mask" => args.mask(view),
            "alibi_slopes" => args.alibi_slopes(view),
            "sinks" => args.sinks(view),
            _ => args.block_table(view),
        };
    }
    for (index, name) in ARRAYS.iter().enumerate() {
        if !has(10 + index) {
            continue;
        }
        let entries = &arrays[index];
        args = match *name {
            "cu_seqlens_q" => args.cu_seqlens_q(entries),
            "cu_seqlens_k" => args.cu_seqlens_k(entries),
            "seqused_q" => args.seqused_q(entries),
            "seqused_k" => args.seqused_k(entries),
            "leftpad_k" => args.leftpad_k(entries),
            "kv_batch_idx" => args.kv_batch_idx(entries),
            _ => args.q_offset(entries),
        };
    }
    args = args.max_seqlen_q(numbers[5]).max_seqlen_k(numbers[6]).num_splits(numbers[7]);
    let mut workspace = Workspace::new(numbers[8] % 4096)?;
    if has(21) {
        args = args.workspace(&mut workspace);
    }
    op.forward(&mut args)
}

fn number_from(variable: &str, fallback: u64) -> u64 {
    std::env::var(variable).map_or(fallback, |text| text.parse().unwrap())
}

#[test]
fn bad_input_is_refused_or_computed() {
    let cases = number_from("FA_FUZZ_ITERATIONS", 5000) as u32;
    let rng_seed = RngSeed::Fixed(number_from("FA_FUZZ_SEED", 1));
    let config = ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() };
    let (computed, refused) = (Cell::new(0), Cell::new(0));
    TestRunner::new(config)
        .run(&call(), |(present, types, changes)| {
            match run(present, types, &changes) {
                Ok(()) => computed.set(computed.get() + 1),
                Err(Error::InvalidArgument(text)) => {
                    prop_assert!(text.len() > 20, "{:?} explains nothing", text);
                    refused.set(refused.get() + 1);
                }
                Err(other) => prop_assert!(false, "{:?}", other),
            }
            Ok(())
        })
        .unwrap();
    println!("{} computed, {} refused", computed.get(), refused.get());
    assert!(computed.get() > cases / 10 && refused.get() > cases / 10);
}
