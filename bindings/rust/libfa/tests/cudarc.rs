//! cudarc's slices as tensors: the same as on the CPU, on cudarc's streams, in its order. Ignored unless asked for, as it takes
//! a CUDA driver: rust.device runs it on the emulator's.
#![cfg(feature = "cudarc")]

use ::cudarc::driver::CudaContext;
use libfa::cudarc::{Read, Write};
use libfa::{attention, DType, Device, ForwardArgs, Op, TensorRef};

const SHAPE: [usize; 4] = [1, 50, 2, 64];

#[test]
#[ignore = "needs a CUDA driver"]
fn slices_are_read_and_written_in_order() {
    let packed: Vec<f32> = (0..3 * 6400).map(|i| (i as f32 * 0.1).sin()).collect(); // q, k and v of each row
    let place = |i: usize| (i * 128, [0, 384, 64, 1]);
    let host = |i| TensorRef::strided(&packed, place(i).0, SHAPE, place(i).1).unwrap();
    let want: Vec<f32> = attention(host(0), host(1), host(2)).unwrap();

    let context = CudaContext::new(0).unwrap();
    let (copies, work) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let there = copies.clone_htod(&packed).unwrap();
    let mut out = copies.alloc_zeros::<f32>(6400).unwrap();
    let op = Op::builder(DType::F32, 64).device(Device::Cuda(0)).build().unwrap();
    {
        let (qkv, mut out) = (Read::new(&there, &work), Write::new(&mut out, &work));
        let part = |i| qkv.strided(place(i).0, SHAPE, place(i).1).unwrap();
        let mut args = ForwardArgs::new(part(0), part(1), part(2), out.tensor(SHAPE).unwrap());
        assert_eq!(args.raw().stream, work.cu_stream().cast());
        op.forward(&mut args).unwrap();
    }
    let got = copies.clone_dtoh(&out).unwrap();
    assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 2e-6));
}

#[test]
#[ignore = "needs a CUDA driver"]
fn what_does_not_fit_is_refused() {
    let context = CudaContext::new(0).unwrap();
    let (one, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let there = one.clone_htod(&vec![0f32; 6400]).unwrap();
    let mut out = one.alloc_zeros::<f32>(6400).unwrap();
    let (q, mut out) = (Read::new(&there, &one), Write::new(&mut out, &other));
    assert!(q.tensor([1, 50, 2, 63]).is_err() && q.strided(1, SHAPE, [0, 128, 64, 1]).is_err());
    let q = q.tensor(SHAPE).unwrap();
    let op = Op::builder(DType::F32, 64).build().unwrap();
    let text = op.forward(&mut ForwardArgs::new(q, q, q, out.tensor(SHAPE).unwrap())).unwrap_err().to_string();
    assert!(text.contains("args.out is of another stream"), "{text}");
    let table = one.clone_htod(&[0i32; 4]).unwrap();
    let text = Read::new(&table, &one).tensor([1, 4, 1, 1]).unwrap_err().to_string();
    assert!(text.contains("TensorRef::on_device"), "{text}");
}
