//! A mistake in a call is an error with a text that names it, and nothing is written.
use libfa::half::{bf16, f16};
use libfa::{Array, DType, Device, Error, ForwardArgs, Op, TensorMut, TensorRef, Workspace};

const SHAPE: [usize; 4] = [2, 3, 1, 8];

fn op() -> Op {
    Op::builder(DType::F32, 8).build().unwrap()
}

/// Makes a mistake in the arguments of a good call, and expects the words in the error's text.
fn refused(words: &[&str], change: impl for<'a> FnOnce(ForwardArgs<'a>, &'a mut [i32]) -> ForwardArgs<'a>) {
    let (data, mut ints) = ([0.5f32; 48], [0i32, 3, 6, 1, 2, 0, 0, 0]);
    let mut out = [7f32; 48];
    let view = || TensorRef::new(&data, SHAPE).unwrap();
    let args = ForwardArgs::new(view(), view(), view(), TensorMut::new(&mut out, SHAPE).unwrap());
    let error = op().forward(&mut change(args, &mut ints)).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    assert_eq!((error.status(), error.name()), (1, "FA_ERROR_INVALID_ARGUMENT"));
    for word in words {
        assert!(error.message().contains(word), "{word:?} is not in {:?}", error.message());
    }
    assert_eq!(out, [7.0; 48], "nothing is written");
}

#[test]
fn descriptions() {
    let error = |builder: libfa::OpBuilder| builder.build().unwrap_err().to_string();
    assert!(error(Op::builder(DType::I32, 8)).contains("dtype_q"));
    assert!(error(Op::builder(DType::F32, 0)).contains("head_dim"));
    assert!(error(Op::builder(DType::F32, usize::MAX)).contains("head_dim"));
    assert!(error(Op::builder(DType::F32, 8).softmax_scale(f32::NAN)).contains("softmax_scale"));
    assert!(error(Op::builder(DType::F32, 8).num_threads(1 << 40)).contains("num_threads"));
    assert!(error(Op::builder(DType::F32, 8).bias_before_softcap(true)).contains("softcap"));
    let cuda = Op::builder(DType::F32, 8).device(Device::Cuda(99)).build().unwrap_err();
    assert!(matches!(cuda, Error::NoDevice(_) | Error::Unsupported(_) | Error::InvalidArgument(_)), "{cuda:?}");
}

#[test]
fn element_types() {
    let (data, half, brain) = ([0f32; 48], [f16::ONE; 48], [bf16::ONE; 48]);
    let mut out = [0f32; 48];
    let view = || TensorRef::new(&data, SHAPE).unwrap();
    let wrong = [TensorRef::new(&half, SHAPE).unwrap(), TensorRef::new(&brain, SHAPE).unwrap()];
    for wrong in wrong {
        let out = TensorMut::new(&mut out, SHAPE).unwrap();
        let text = op().forward(&mut ForwardArgs::new(wrong, view(), view(), out)).unwrap_err().to_string();
        assert!(text.contains("args.q.dtype") && text.contains("FA_F32"), "{text}");
    }
    let mut bools = [true; 48];
    let out = TensorMut::new(&mut bools, SHAPE).unwrap();
    let text = op().forward(&mut ForwardArgs::new(view(), view(), view(), out)).unwrap_err().to_string();
    assert!(text.contains("args.out.dtype"), "{text}");
}

#[test]
fn shapes_and_lengths_of_arrays() {
    refused(&["args.bias.shape"], |args, _| args.bias(TensorRef::new(&[0f32; 5], [1, 1, 1, 5]).unwrap()));
    refused(&["args.sinks"], |args, _| args.sinks(TensorRef::new(&[0f32; 3], [1, 3, 1, 1]).unwrap()));
    refused(&["seqused_k", "3 entries", "expected 2"], |args, ints| args.seqused_k(&ints[..3]));
    refused(&["leftpad_k", "1 entries", "expected 2"], |args, ints| args.leftpad_k(&ints[..1]));
    refused(&["cu_seqlens_q", "no entries"], |args, ints| args.cu_seqlens_q(&ints[..0]));
    refused(&["cu_seqlens_k has 3", "cu_seqlens_q has 2"], |args, ints| {
        let ints: &[i32] = ints;
        args.cu_seqlens_q(&ints[..2]).cu_seqlens_k(&ints[..3])
    });
    refused(&["args.q.shape[0]"], |args, ints| args.cu_seqlens_q(&ints[..3])); // packed, but of batch 2
    refused(&["kv_batch_idx"], |args, ints| {
        ints.fill(99);
        args.kv_batch_idx(&ints[..2])
    });
    refused(&["num_splits"], |args, _| args.num_splits(usize::MAX));
}

#[test]
fn workspaces_that_are_too_small() {
    let (data, mut out) = ([0f32; 16 * 4096], [0f32; 16]);
    let keys = TensorRef::new(&data, [1, 4096, 1, 16]).unwrap();
    let q = TensorRef::new(&data[..16], [1, 1, 1, 16]).unwrap();
    let op = Op::builder(DType::F32, 16).num_threads(2).build().unwrap();
    let args = ForwardArgs::new(q, keys, keys, TensorMut::new(&mut out, [1, 1, 1, 16]).unwrap()).num_splits(4);
    let needed = op.workspace_size(&args).unwrap();
    assert!(needed > 0);
    let mut workspace = Workspace::new(needed - 1).unwrap();
    let text = op.forward(&mut args.workspace(&mut workspace)).unwrap_err().to_string();
    assert!(text.contains("workspace") && text.contains(&needed.to_string()), "{text}");
}

#[test]
fn views_outside_their_slice() {
    let data = [0f32; 10];
    let refused = |first, shape, stride| TensorRef::strided(&data, first, shape, stride).unwrap_err().to_string();
    assert!(TensorRef::strided(&data, 9, [1, 10, 1, 1], [0, -1, 0, 1]).is_ok());
    assert!(refused(8, [1, 10, 1, 1], [0, -1, 0, 1]).contains("elements -1 to 8"));
    assert!(refused(0, [1, 11, 1, 1], [0, 1, 0, 1]).contains("data has 10"));
    assert!(refused(10, [1, 1, 1, 1], [0, 0, 0, 0]).contains("10"));
    assert!(refused(0, [usize::MAX, usize::MAX, 2, 2], [isize::MIN, isize::MAX, 1, 1]).contains("reaches"));
    assert!(TensorRef::strided(&data, usize::MAX, [1, 0, 1, 1], [1, 1, 1, 1]).is_ok(), "no element, none outside");
    assert!(TensorRef::new(&data, [1, 1, 1, 9]).unwrap_err().message().contains("9 elements, but data has 10"));
    assert!(TensorRef::new(&data, [usize::MAX, 2, 1, 1]).unwrap_err().message().contains("too many"));
}

#[test]
fn outputs_that_overlap_themselves() {
    let mut out = [0f32; 100];
    for stride in [[24, 8, 8, 1], [24, 7, 8, 1], [-24, 8, -8, -1], [42, 7, 21, 1]] {
        let text = TensorMut::strided(&mut out, 0, [2, 3, 2, 8], stride).unwrap_err().to_string();
        assert!(text.contains("overlap"), "{text}");
    }
    assert!(TensorMut::strided(&mut out, 95, [2, 3, 2, 8], [-48, -8, -24, -1]).is_ok());

    // A stride of 0 is the library's to refuse.
    let data = [0f32; 48];
    let view = || TensorRef::new(&data, SHAPE).unwrap();
    let repeated = TensorMut::strided(&mut out, 0, SHAPE, [0, 8, 8, 1]).unwrap();
    let text = op().forward(&mut ForwardArgs::new(view(), view(), view(), repeated)).unwrap_err().to_string();
    assert!(text.contains("args.out.stride[0]"), "{text}");
}

#[test]
fn mixed_devices() {
    let far = || 256 as *mut std::ffi::c_void; // never followed
    refused(&["mixed devices", "args.q ", "args.bias "], |args, _| {
        args.bias(unsafe { TensorRef::on_device(far(), DType::F32, [1, 1, 1, 3], [3, 3, 3, 1]) }.unwrap())
    });
    refused(&["mixed devices", "args.seqused_q "], |args, _| {
        args.seqused_q(unsafe { Array::on_device(far().cast(), 2) })
    });
    let all_far = || unsafe { TensorRef::on_device(far(), DType::F32, SHAPE, [24, 8, 8, 1]) }.unwrap();
    let out = unsafe { TensorMut::on_device(far(), DType::F32, SHAPE, [24, 8, 8, 1]) }.unwrap();
    let cpu = Op::builder(DType::F32, 8).device(Device::Cpu).build().unwrap();
    let text = cpu.forward(&mut ForwardArgs::new(all_far(), all_far(), all_far(), out)).unwrap_err().to_string();
    assert!(text.contains("a device's memory") && text.contains("the CPU"), "{text}");
}
