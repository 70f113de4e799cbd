//! The shared case list through the safe layer: every feature of fa.h, judged by the oracle's results.
mod support;

use libfa::sys::*;
use libfa::{Device, Error, ForwardArgs, Mask, Op, OpBuilder, Workspace};
use support::{cases, dtype, Case};

fn builder(case: &Case) -> OpBuilder {
    let mut builder = Op::builder(dtype(case.desc("dtype_q")), case.desc("head_dim") as usize);
    for (field, value) in &case.desc {
        let (size, number) = (*value as usize, *value as i32);
        builder = match field.as_str() {
            "dtype_q" | "head_dim" => builder,
            "device" => builder.device(if number == FA_DEVICE_CPU { Device::Cpu } else { Device::Cuda(0) }),
            "dtype_kv" => builder.dtype_kv(dtype(*value)),
            "dtype_out" => builder.dtype_out(dtype(*value)),
            "mask" if number == FA_MASK_CAUSAL => builder.mask(Mask::Causal),
            "mask" if number == FA_MASK_CAUSAL_TOP_LEFT => builder.mask(Mask::CausalTopLeft),
            "head_dim_v" => builder.head_dim_v(size),
            "window_left" => builder.window_left(size),
            "window_right" => builder.window_right(size),
            "attention_chunk" => builder.attention_chunk(size),
            "softmax_scale" => builder.softmax_scale(*value as f32),
            "softcap" => builder.softcap(*value as f32),
            "num_threads" => builder.num_threads(size),
            "flags" => {
                let on = |flag: u32| *value as u32 & flag != 0;
                builder
                    .nondeterministic(on(FA_FLAG_NONDETERMINISTIC))
                    .batch_invariant(on(FA_FLAG_BATCH_INVARIANT))
                    .bias_before_softcap(on(FA_FLAG_BIAS_BEFORE_SOFTCAP))
                    .hadamard_k(on(FA_FLAG_HADAMARD_K))
                    .hadamard_v(on(FA_FLAG_HADAMARD_V))
            }
            _ => panic!("{field} = {value} cannot be said in this language"),
        };
    }
    builder
}

/// Runs a case, its outputs in `case`.
fn run(case: &mut Case) -> libfa::Result<()> {
    let op = builder(case).build()?;
    let inputs = case.clone();
    let (mut out, mut lse) = (None, None);
    for tensor in &mut case.tensors {
        match tensor.name.as_str() {
            "out" => out = Some(tensor.view_mut()?),
            "lse" => lse = Some(tensor.view_mut()?),
            _ => {}
        }
    }
    let view = |name: &str| inputs.tensor(name).unwrap().view();
    let mut args = ForwardArgs::new(view("q")?, view("k")?, view("v")?, out.unwrap());
    if let Some(lse) = lse {
        args = args.lse(lse);
    }
    for tensor in &inputs.tensors {
        args = match tensor.name.as_str() {
            "q" | "k" | "v" | "out" | "lse" => args,
            "bias" => args.bias(tensor.view()?),
            "mask" => args.mask(tensor.view()?),
            "alibi_slopes" => args.alibi_slopes(tensor.view()?),
            "sinks" => args.sinks(tensor.view()?),
            "block_table" => args.block_table(tensor.view()?),
            "tree_mask" => args.tree_mask(tensor.view()?),
            "tree_depth" => args.tree_depth(tensor.view()?),
            other => panic!("{other} cannot be said in this language"),
        };
    }
    for (name, entries) in &inputs.arrays {
        args = match name.as_str() {
            "cu_seqlens_q" => args.cu_seqlens_q(entries),
            "cu_seqlens_k" => args.cu_seqlens_k(entries),
            "seqused_q" => args.seqused_q(entries),
            "seqused_k" => args.seqused_k(entries),
            "leftpad_k" => args.leftpad_k(entries),
            "kv_batch_idx" => args.kv_batch_idx(entries),
            "q_offset" => args.q_offset(entries),
            other => panic!("{other} cannot be said in this language"),
        };
    }
    for (name, value) in &inputs.args {
        args = match name.as_str() {
            "num_seqs" => {
                assert_eq!(args.raw().num_seqs, *value as i64, "follows from cu_seqlens");
                args
            }
            "max_seqlen_q" => args.max_seqlen_q(*value as usize),
            "max_seqlen_k" => args.max_seqlen_k(*value as usize),
            "num_splits" => args.num_splits(*value as usize),
            other => panic!("{other} cannot be said in this language"),
        };
    }
    let mut workspace;
    if case.workspace {
        workspace = Workspace::new(op.workspace_size(&args)?)?;
        args = args.workspace(&mut workspace);
    }
    op.forward(&mut args)
}

/// The first error in a case's results.
fn judge(case: &mut Case) -> Result<(), String> {
    let before = case.clone();
    let result = run(case);
    if !case.refused.is_empty() {
        let Err(Error::InvalidArgument(text)) = result else { return Err(format!("{result:?}, not refused")) };
        if let Some(name) = case.refused.iter().find(|name| !text.contains(*name)) {
            return Err(format!("{text:?} does not name {name}"));
        }
        let same =
            before.tensors.iter().zip(&case.tensors).all(|(then, now)| then.memory.bytes() == now.memory.bytes());
        return if same { Ok(()) } else { Err("refused, but written".into()) };
    }
    result.map_err(|error| error.to_string())?;
    assert!(!case.want.is_empty());
    for (name, want) in &case.want {
        case.tensor(name).unwrap().judge(&before.tensor(name).unwrap().memory, want)?;
    }
    Ok(())
}

/// FA_CASES_STEP=N: every N-th case only, where time is short.
#[test]
fn shared_case_list() {
    let step = std::env::var("FA_CASES_STEP").map_or(1, |text| text.parse().unwrap());
    let mut cases: Vec<Case> = cases().into_iter().step_by(step).collect();
    assert!(cases.len() * step > 200, "{} cases", cases.len());
    let wrong: Vec<String> = cases
        .iter_mut()
        .filter_map(|case| {
            judge(case).err().map(|text| format!("case {}: {text}\n  fa run --case '{}'", case.name, case.text))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    println!("{} cases", cases.len());
}
