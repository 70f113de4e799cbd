//! Everything that fa.h declares can be said in the safe layer: each field by a method that sets it and no other byte, each
//! function by a call of it.
use std::collections::BTreeSet;
use std::path::Path;

use fields::{
    append_fields, backward_fields, forward_fields, merge_fields, setters_of_append, setters_of_inputs,
    setters_of_quantised, setters_of_rope, setters_of_tree,
};
use libfa::sys::*;
use libfa::{
    AppendArgs, BackwardArgs, ComputedScales, DType, Device, ForwardArgs, Mask, MergeArgs, Op, OpBuilder, TensorMut,
    TensorRef, Workspace,
};

mod fields;

fn header() -> String {
    let path = std::env::var_os("FA_INCLUDE_DIR").map(|folder| Path::new(&folder).join("fa.h"));
    let path = path.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../fa-sys/native/include/fa.h"));
    let text = std::fs::read_to_string(&path).unwrap();
    // Without comments, only declarations are left.
    text.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code)).collect()
}

/// The names of the fields of a structure.
fn fields(structure: &str) -> BTreeSet<String> {
    let header = header();
    let (_, rest) = header.split_once(&format!("typedef struct {structure} {{")).unwrap();
    let (body, _) = rest.split_once('}').unwrap();
    let name = |line: &str| line.split('[').next().unwrap().rsplit([' ', '*']).next().unwrap().to_owned();
    body.split(';').map(str::trim).filter(|line| !line.is_empty()).map(name).collect()
}

fn functions() -> BTreeSet<String> {
    header()
        .split("FA_API ")
        .skip(1)
        .filter_map(|declaration| Some(declaration.split_once('(')?.0.rsplit([' ', '*']).next()?.to_owned()))
        .filter(|name| name.starts_with("fa_"))
        .collect()
}

fn bytes<T>(value: &T) -> &[u8] {
    unsafe { std::slice::from_raw_parts((value as *const T).cast(), size_of::<T>()) }
}

/// The fields of a structure that differ, by their bytes.
macro_rules! differing {
    ($structure:ident, $a:expr, $b:expr, $($field:ident)*) => {{
        let (a, b): (&$structure, &$structure) = ($a, $b);
        let mut names = BTreeSet::new();
        $(if bytes(&a.$field) != bytes(&b.$field) { names.insert(stringify!($field).to_owned()); })*
        names
    }};
}

fn desc_difference(a: &OpBuilder, b: &OpBuilder) -> BTreeSet<String> {
    differing!(fa_desc, a.raw(), b.raw(), struct_size device device_index dtype_q dtype_kv dtype_v dtype_out mask head_dim
        head_dim_v window_left window_right attention_chunk softmax_scale softcap flags num_threads parallel_for
        parallel_for_user dtype_k_rope head_dim_rope)
}

#[test]
fn every_field_of_fa_desc() {
    type Set = fn(OpBuilder) -> OpBuilder;
    let setters: &[(&[&str], Set)] = &[
        (&["device"], |b| b.device(Device::Cpu)),
        (&["device", "device_index"], |b| b.device(Device::Cuda(1))),
        (&["dtype_q"], |b| b.dtype_q(DType::BF16)),
        (&["dtype_kv"], |b| b.dtype_kv(DType::F16)),
        (&["dtype_v"], |b| b.dtype_v(DType::I8)),
        (&["dtype_k_rope"], |b| b.dtype_k_rope(DType::BF16)),
        (&["head_dim_rope"], |b| b.head_dim_rope(16)),
        (&["dtype_out"], |b| b.dtype_out(DType::F16)),
        (&["mask"], |b| b.mask(Mask::Causal)),
        (&["head_dim"], |b| b.head_dim(32)),
        (&["head_dim_v"], |b| b.head_dim_v(32)),
        (&["window_left"], |b| b.window_left(7)),
        (&["window_right"], |b| b.window_right(0)),
        (&["attention_chunk"], |b| b.attention_chunk(9)),
        (&["softmax_scale"], |b| b.softmax_scale(0.5)),
        (&["softcap"], |b| b.softcap(20.0)),
        (&["flags"], |b| b.nondeterministic(true)),
        (&["flags"], |b| b.batch_invariant(true)),
        (&["flags"], |b| b.bias_before_softcap(true)),
        (&["flags"], |b| b.hadamard_k(true)),
        (&["flags"], |b| b.hadamard_v(true)),
        (&["flags"], |b| b.device_pointers(true)),
        (&["num_threads"], |b| b.num_threads(3)),
    ];
    let mut reached = BTreeSet::from(["struct_size"].map(str::to_owned)); // fa_desc_init's
    for (names, set) in setters {
        let difference = desc_difference(&Op::builder(DType::F32, 64), &set(Op::builder(DType::F32, 64)));
        assert_eq!(difference, names.iter().map(|name| name.to_string()).collect());
        reached.extend(difference);
    }
    // These two are set by build(), for parallel_for(): tests/threads.rs sees the pool at work.
    let _pool =
        Op::builder(DType::F32, 64).parallel_for(|tasks: &libfa::Tasks| (0..tasks.len()).for_each(|i| tasks.run(i)));
    reached.extend(["parallel_for".to_owned(), "parallel_for_user".to_owned()]);
    assert_eq!(reached, fields("fa_desc"));
}

/// Setters of the arguments of both passes, each with the fields that it reaches.
macro_rules! setters_of_both {
    ($view:expr, $bytes:expr, $pages:expr, $workspace:expr) => {{
        let (view, bytes, pages, workspace) = ($view, $bytes, $pages, $workspace);
        let mut setters: Vec<(&[&str], Set)> = setters_of_inputs!(view, bytes, pages);
        let others: Vec<(&[&str], Set)> = vec![
            (&["max_seqlen_q"], Box::new(|a| a.max_seqlen_q(5))),
            (&["max_seqlen_k"], Box::new(|a| a.max_seqlen_k(5))),
            (&["workspace", "workspace_size"], Box::new(move |a| a.workspace(workspace))),
            (&["stream"], Box::new(|a| unsafe { a.stream(16 as *mut _) })),
        ];
        setters.extend(others);
        setters
    }};
}

fn args_difference(a: &ForwardArgs, b: &ForwardArgs) -> BTreeSet<String> {
    forward_fields!(differing, fa_forward_args, a.raw(), b.raw(),)
}

#[test]
fn every_field_of_fa_forward_args() {
    type Set<'a> = Box<dyn FnOnce(ForwardArgs<'a>) -> ForwardArgs<'a> + 'a>;
    let numbers = [0f32; 4];
    let bytes = [true; 4];
    let pages = [0i32; 4];
    let (mut out, mut lse) = ([0f32; 4], [0f32; 4]);
    let mut workspace = Workspace::new(1024).unwrap();
    let shape = [1, 1, 1, 4];
    let view = || TensorRef::new(&numbers, shape).unwrap();
    let plain = |out| ForwardArgs::new(view(), view(), view(), out);
    let out_raw = TensorMut::new(&mut out, shape).unwrap();
    let base = plain(out_raw);
    // The outputs and the workspace are unique borrows: the arguments they are set on share out's address only.
    let same_out = || unsafe { TensorMut::on_device(base.raw().out.data, DType::F32, shape, [4, 4, 4, 1]).unwrap() };
    let setters: Vec<(&[&str], Set)> = vec![
        (&["lse"], {
            let lse = TensorMut::new(&mut lse, shape).unwrap();
            Box::new(|a: ForwardArgs<'_>| a.lse(lse))
        }),
        (&["num_splits"], Box::new(|a| a.num_splits(2))),
    ];
    let known = ["struct_size", "reserved", "q", "k", "v", "out"]; // fa_forward_args_init's, always 0, and ForwardArgs::new's
    let mut reached: BTreeSet<String> = known.iter().map(|name| name.to_string()).collect();
    let inputs = setters_of_both!(view, &bytes, &pages, &mut workspace);
    let quantised: Vec<(&[&str], Set)> = setters_of_quantised!(view);
    let words = &pages;
    let tree: Vec<(&[&str], Set)> = setters_of_tree!(words);
    let rope: Vec<(&[&str], Set)> = setters_of_rope!(view);
    for (names, set) in setters.into_iter().chain(inputs).chain(quantised).chain(tree).chain(rope) {
        let difference = args_difference(&base, &set(plain(same_out())));
        assert_eq!(difference, names.iter().map(|name| name.to_string()).collect());
        reached.extend(difference);
    }
    assert_eq!(reached, fields("fa_forward_args"));
}

fn backward_difference(a: &BackwardArgs, b: &BackwardArgs) -> BTreeSet<String> {
    backward_fields!(differing, fa_backward_args, a.raw(), b.raw(),)
}

#[test]
fn every_field_of_fa_backward_args() {
    type Set<'a> = Box<dyn FnOnce(BackwardArgs<'a>) -> BackwardArgs<'a> + 'a>;
    let (numbers, bytes, pages, shape) = ([0f32; 4], [true; 4], [0i32; 4], [1, 1, 1, 4]);
    let mut workspace = Workspace::new(1024).unwrap();
    let view = || TensorRef::new(&numbers, shape).unwrap();
    // Gradients are unique borrows: of memory that nobody looks at.
    let gradient = || unsafe { TensorMut::on_device(256 as *mut _, DType::F32, shape, [4, 4, 4, 1]).unwrap() };
    let plain = || BackwardArgs::new(view(), view(), view(), view(), view());
    let setters: Vec<(&[&str], Set)> = vec![
        (&["out"], Box::new(|a| a.out(view()))),
        (&["delta"], Box::new(|a| a.delta(view()))),
        (&["dlse"], Box::new(|a| a.dlse(view()))),
        (&["dq"], Box::new(|a| a.dq(gradient()))),
        (&["dk"], Box::new(|a| a.dk(gradient()))),
        (&["dv"], Box::new(|a| a.dv(gradient()))),
        (&["dbias"], Box::new(|a| a.dbias(gradient()))),
        (&["dsinks"], Box::new(|a| a.dsinks(gradient()))),
        (&["dq", "accumulate"], Box::new(|a| a.add_to_dq(gradient()))),
        (&["dk", "accumulate"], Box::new(|a| a.add_to_dk(gradient()))),
        (&["dv", "accumulate"], Box::new(|a| a.add_to_dv(gradient()))),
        (&["dbias", "accumulate"], Box::new(|a| a.add_to_dbias(gradient()))),
        (&["dsinks", "accumulate"], Box::new(|a| a.add_to_dsinks(gradient()))),
    ];
    // fa_backward_args_init's, always 0, and BackwardArgs::new's.
    let known = ["struct_size", "reserved", "q", "k", "v", "lse", "dout"];
    let mut reached: BTreeSet<String> = known.iter().map(|name| name.to_string()).collect();
    for (names, set) in setters.into_iter().chain(setters_of_both!(view, &bytes, &pages, &mut workspace)) {
        let difference = backward_difference(&plain(), &set(plain()));
        assert_eq!(difference, names.iter().map(|name| name.to_string()).collect());
        reached.extend(difference);
    }
    assert_eq!(reached, fields("fa_backward_args"));
}

#[test]
fn every_field_of_fa_merge_args() {
    type Set<'a> = Box<dyn FnOnce(MergeArgs<'a>) -> MergeArgs<'a> + 'a>;
    let (numbers, bytes, shape) = ([0f32; 4], [true; 1], [1, 1, 1, 4]);
    let mut workspace = Workspace::new(1024).unwrap();
    let view = || TensorRef::new(&numbers, shape).unwrap();
    let result = || unsafe { TensorMut::on_device(256 as *mut _, DType::F32, shape, [4, 4, 4, 1]).unwrap() };
    let plain = || MergeArgs::new(result());
    let setters: Vec<(&[&str], Set)> = vec![
        (&["lse"], Box::new(|a| a.lse(result()))),
        (&["mask"], Box::new(|a| a.mask(TensorRef::new(&bytes, [1, 1, 1, 1]).unwrap()))),
        (&["flags"], Box::new(|a| a.base_2(true))),
        (&["outs", "lses", "num_parts"], Box::new(|a| a.part(view(), view()))),
        (&["workspace", "workspace_size"], Box::new(|a| a.workspace(&mut workspace))),
        (&["stream"], Box::new(|a| unsafe { a.stream(16 as *mut _) })),
    ];
    let known = ["struct_size", "out"]; // fa_merge_args_init's, and MergeArgs::new's
    let mut reached: BTreeSet<String> = known.iter().map(|name| name.to_string()).collect();
    for (names, set) in setters {
        let (a, b) = (plain(), set(plain()));
        let difference = merge_fields!(differing, fa_merge_args, a.raw(), b.raw(),);
        assert_eq!(difference, names.iter().map(|name| name.to_string()).collect());
        reached.extend(difference);
    }
    assert_eq!(reached, fields("fa_merge_args"));
}

#[test]
fn every_field_of_fa_append_args() {
    type Set<'a> = Box<dyn FnOnce(AppendArgs<'a>) -> AppendArgs<'a> + 'a>;
    let (numbers, pages, shape) = ([0f32; 4], &[0i32; 4], [1, 1, 1, 4]);
    let mut workspace = Workspace::new(1024).unwrap();
    let view = || TensorRef::new(&numbers, shape).unwrap();
    let result = || unsafe { TensorMut::on_device(256 as *mut _, DType::F32, shape, [4, 4, 4, 1]).unwrap() };
    let plain = || AppendArgs::keys(view(), result());
    let mut setters: Vec<(&[&str], Set)> = setters_of_append!(view, result, pages);
    let others: Vec<(&[&str], Set)> = vec![
        (&["v", "v_cache"], Box::new(|_| AppendArgs::new(view(), view(), result(), result()))),
        (&["q", "q_out"], Box::new(|a| a.q_in_place(result()))),
        (
            &["flags", "k_scale", "v_scale", "k_zero", "v_zero"],
            Box::new(|a| {
                let [k_scale, v_scale, k_zero, v_zero] = [(); 4].map(|()| Some(result()));
                a.compute_scales(ComputedScales { k_scale, v_scale, k_zero, v_zero })
            }),
        ),
        (&["flags"], Box::new(|a| a.rotary_interleaved(true))),
        (&["flags"], Box::new(|a| a.rotary_tail(true))),
        (&["max_seqlen_new"], Box::new(|a| a.max_seqlen_new(5))),
        (&["workspace", "workspace_size"], Box::new(|a| a.workspace(&mut workspace))),
        (&["stream"], Box::new(|a| unsafe { a.stream(16 as *mut _) })),
    ];
    setters.extend(others);
    let known = ["struct_size", "reserved", "k", "k_cache"]; // fa_append_args_init's, always 0, and AppendArgs::keys'
    let mut reached: BTreeSet<String> = known.iter().map(|name| name.to_string()).collect();
    for (names, set) in setters {
        let (a, b) = (plain(), set(plain()));
        let difference = append_fields!(differing, fa_append_args, a.raw(), b.raw(),);
        assert_eq!(difference, names.iter().map(|name| name.to_string()).collect());
        reached.extend(difference);
    }
    assert_eq!(reached, fields("fa_append_args"));
}

#[test]
fn every_field_of_fa_tensor_and_fa_kernel() {
    let data = [0f32; 6];
    let raw = *ForwardArgs::new(
        TensorRef::strided(&data, 1, [1, 2, 1, 2], [0, 2, 0, 1]).unwrap(),
        TensorRef::new(&data, [1, 1, 1, 6]).unwrap(),
        TensorRef::new(&data, [1, 1, 1, 6]).unwrap(),
        TensorMut::new(&mut [0f32; 4], [1, 2, 1, 2]).unwrap(),
    )
    .raw();
    let q = raw.q;
    assert_eq!((q.data.cast_const(), q.shape, q.stride), (data[1..].as_ptr().cast(), [1, 2, 1, 2], [0, 2, 0, 1]));
    assert_eq!((q.dtype, q.reserved), (FA_F32, 0));
    let expected = ["data", "shape", "stride", "dtype", "reserved"].map(str::to_owned);
    assert_eq!(fields("fa_tensor"), BTreeSet::from(expected));

    // Every field is one of libfa::Kernel, but for the size and reserved fields.
    let libfa::Kernel { name, device, arch, compute_dtypes, available: _, unavailable_reason, backward, .. } =
        libfa::kernels().unwrap().remove(0);
    assert!([name, device, arch, compute_dtypes].iter().all(|text| !text.is_empty()), "{unavailable_reason}");
    assert!(!backward.is_empty() && backward.iter().all(|text| !text.is_empty()), "{backward:?}");
    let expected =
        ["struct_size", "name", "device", "arch", "compute_dtypes", "available", "num_backward", "unavailable_reason"];
    assert_eq!(fields("fa_kernel"), BTreeSet::from(expected.map(str::to_owned)));
}

#[test]
fn every_function() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sources: String = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .flat_map(|text| {
            text.lines().filter(|line| !line.trim_start().starts_with("//")).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let missing: Vec<String> = functions().into_iter().filter(|name| !sources.contains(&format!("{name}("))).collect();
    assert!(functions().len() >= 16, "{:?}", functions());
    assert_eq!(missing, Vec::<String>::new(), "functions of fa.h that the safe layer never calls");
}
