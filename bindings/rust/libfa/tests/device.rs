//! Tensors in a GPU's memory, which the CUDA driver is asked for directly: the same as on the CPU, on a stream, in a workspace.
//! Ignored unless asked for, as it takes a driver with two GPUs: rust.device runs it on the emulator's.
use std::ffi::{c_char, c_int, c_void, CStr};
use std::mem::transmute_copy;
use std::ptr::null_mut;

use libfa::half::f16;
use libfa::{
    Array, BackwardArgs, DType, Device, Element, Error, ForwardArgs, Mask, Op, OpBuilder, TensorMut, TensorRef,
};

const QUERIES: [usize; 4] = [2, 5, 4, 16];
const KEYS: [usize; 4] = [2, 160, 2, 16];
const USED: [i32; 2] = [70, 160];

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A function of the driver that takes up to three words, as all of those that are used here do.
fn driver(name: &CStr, a: usize, b: usize, c: usize) {
    let address = unsafe { dlsym(dlopen(c"libcuda.so.1".as_ptr(), 2), name.as_ptr()) };
    assert!(!address.is_null(), "{name:?} is not in libcuda.so.1");
    let call: extern "C" fn(usize, usize, usize) -> c_int = unsafe { transmute_copy(&address) };
    assert_eq!(call(a, b, c), 0, "{name:?}");
}

/// Makes the GPU of this index the one that memory is allocated on.
fn use_gpu(index: usize) {
    let mut context: *mut c_void = null_mut();
    driver(c"cuInit", 0, 0, 0);
    driver(c"cuDevicePrimaryCtxRetain", &raw mut context as usize, index, 0);
    driver(c"cuCtxSetCurrent", context as usize, 0, 0);
}

/// A copy of a slice in the GPU's memory.
struct Memory<T> {
    address: usize,
    host: Vec<T>,
}

impl<T: Element> Memory<T> {
    fn new(host: &[T]) -> Self {
        let (mut address, host) = (0usize, host.to_vec());
        driver(c"cuMemAlloc_v2", &raw mut address as usize, size_of_val(&*host), 0);
        driver(c"cuMemcpyHtoD_v2", address, host.as_ptr() as usize, size_of_val(&*host));
        Memory { address, host }
    }

    fn view(&self, shape: [usize; 4]) -> TensorRef<'_> {
        unsafe { TensorRef::on_device(self.address as *const c_void, T::DTYPE, shape, steps(shape)) }.unwrap()
    }

    fn view_mut(&mut self, shape: [usize; 4]) -> TensorMut<'_> {
        unsafe { TensorMut::on_device(self.address as *mut c_void, T::DTYPE, shape, steps(shape)) }.unwrap()
    }

    fn read(&mut self) -> &[T] {
        driver(c"cuMemcpyDtoH_v2", self.host.as_mut_ptr() as usize, self.address, size_of_val(&*self.host));
        &self.host
    }
}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        driver(c"cuMemFree_v2", self.address, 0, 0);
    }
}

fn steps(shape: [usize; 4]) -> [isize; 4] {
    [shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1].map(|step| step as isize)
}

fn numbers(shape: [usize; 4], step: f32) -> Vec<f32> {
    (0..shape.iter().product()).map(|i| (i as f32 * step).sin()).collect()
}

fn builder(dtype: DType) -> OpBuilder {
    Op::builder(dtype, 16).mask(Mask::Causal).softcap(2.0)
}

/// out and lse by the CPU and by the GPU of this index are at most so far apart.
fn compare<T: Element + Into<f32>>(gpu: usize, from: fn(f32) -> T, near: f32) {
    use_gpu(gpu);
    let host = |shape, step| numbers(shape, step).into_iter().map(from).collect::<Vec<T>>();
    let (q, k, v) = (host(QUERIES, 0.1), host(KEYS, 0.2), host(KEYS, 0.3));
    let (mut want, mut want_lse) = (vec![from(9.0); q.len()], [9f32; 40]);
    let (mut out, mut lse) = (Memory::new(&want), Memory::new(&want_lse));

    let tensor = |data, shape| TensorRef::new(data, shape).unwrap();
    let output = TensorMut::new(&mut want, QUERIES).unwrap();
    let args = ForwardArgs::new(tensor(&q, QUERIES), tensor(&k, KEYS), tensor(&v, KEYS), output);
    let args = args.seqused_k(&USED).lse(TensorMut::new(&mut want_lse, [2, 4, 5, 1]).unwrap());
    builder(T::DTYPE).build().unwrap().forward(&mut { args }).unwrap();

    let op = builder(T::DTYPE).device(Device::Cuda(gpu as u32)).build().unwrap();
    assert!(op.kernel().starts_with("cuda.sm_"), "{}", op.kernel());
    let (q, k, v, used) = (Memory::new(&q), Memory::new(&k), Memory::new(&v), Memory::new(&USED));
    let mut stream: *mut c_void = null_mut();
    driver(c"cuStreamCreate", &raw mut stream as usize, 0, 0);
    let args = ForwardArgs::new(q.view(QUERIES), k.view(KEYS), v.view(KEYS), out.view_mut(QUERIES));
    let args = args.seqused_k(unsafe { Array::on_device(used.address as *const i32, 2) });
    let args = unsafe { args.lse(lse.view_mut([2, 4, 5, 1])).num_splits(2).stream(stream) };
    let bytes = op.workspace_size(&args).unwrap();
    assert!(bytes > 0, "two splits meet in the workspace");
    let memory = Memory::new(&vec![0u8; bytes]);
    let mut args = unsafe { args.workspace_on_device(memory.address as *mut c_void, bytes) };
    op.forward(&mut args).unwrap();
    driver(c"cuStreamSynchronize", stream as usize, 0, 0);
    driver(c"cuStreamDestroy_v2", stream as usize, 0, 0);

    let apart = |a: f32, b: f32| assert!((a - b).abs() < near, "{a} and {b}");
    out.read().iter().zip(&want).for_each(|(a, b)| apart((*a).into(), (*b).into()));
    lse.read().iter().zip(&want_lse).for_each(|(a, b)| apart(*a, *b));
}

#[test]
#[ignore = "needs a CUDA driver with two GPUs"]
fn as_on_the_cpu() {
    compare(0, |x| x, 2e-6);
    compare(0, f16::from_f32, 4e-3);
    compare(1, |x| x, 2e-6);
}

/// Of f16 by tensor cores, in a workspace: dk is f32 and added to its old contents.
#[test]
#[ignore = "needs a CUDA driver with two GPUs"]
fn gradients_as_on_the_cpu() {
    use_gpu(0);
    let host = |shape, step| numbers(shape, step).into_iter().map(f16::from_f32).collect::<Vec<_>>();
    let (q, k, v, dout) = (host(QUERIES, 0.1), host(KEYS, 0.2), host(KEYS, 0.3), host(QUERIES, 0.4));
    let tensor = |data, shape| TensorRef::new(data, shape).unwrap();
    let op = builder(DType::F16).build().unwrap();
    let of = (tensor(&q, QUERIES), tensor(&k, KEYS), tensor(&v, KEYS));
    let (out, lse) = op.attention_with_lse::<f16>(of.0, of.1, of.2).unwrap();
    let rows = TensorRef::new(&lse, [2, 4, 5, 1]).unwrap();
    let [want_dq, want_dk, want_dv] =
        op.gradients::<f16>(of.0, of.1, of.2, tensor(&out, QUERIES), rows, tensor(&dout, QUERIES)).unwrap();

    let op = builder(DType::F16).device(Device::Cuda(0)).build().unwrap();
    let (mut dq, mut dk) = (Memory::new(&vec![f16::NAN; q.len()]), Memory::new(&vec![2f32; k.len()]));
    let mut dv = Memory::new(&vec![f16::NAN; v.len()]);
    let (q, k, v, dout) = (Memory::new(&q), Memory::new(&k), Memory::new(&v), Memory::new(&dout));
    let (out, lse) = (Memory::new(&out), Memory::new(&lse));
    let args =
        BackwardArgs::new(q.view(QUERIES), k.view(KEYS), v.view(KEYS), lse.view([2, 4, 5, 1]), dout.view(QUERIES))
            .out(out.view(QUERIES))
            .dq(dq.view_mut(QUERIES))
            .add_to_dk(dk.view_mut(KEYS))
            .dv(dv.view_mut(KEYS));
    let bytes = op.backward_workspace_size(&args).unwrap();
    let memory = Memory::new(&vec![0u8; bytes]);
    op.backward(&mut unsafe { args.workspace_on_device(memory.address as *mut c_void, bytes) }).unwrap();
    driver(c"cuCtxSynchronize", 0, 0, 0);

    let near = |a: f32, b: f16| assert!((a - b.to_f32()).abs() < 4e-3, "{a} and {b}");
    dq.read().iter().zip(&want_dq).for_each(|(a, b)| near(a.to_f32(), *b));
    dk.read().iter().zip(&want_dk).for_each(|(a, b)| near(a - 2., *b));
    dv.read().iter().zip(&want_dv).for_each(|(a, b)| near(a.to_f32(), *b));
}

#[test]
#[ignore = "needs a CUDA driver with two GPUs"]
fn places_that_do_not_fit() {
    use_gpu(0);
    let (there, mut out) = (Memory::new(&numbers(QUERIES, 0.1)), Memory::new(&numbers(QUERIES, 0.0)));
    let mut args =
        ForwardArgs::new(there.view(QUERIES), there.view(QUERIES), there.view(QUERIES), out.view_mut(QUERIES));
    let wrong = |op: OpBuilder, args: &mut ForwardArgs| op.build().and_then(|op| op.forward(args)).unwrap_err();
    let other = wrong(builder(DType::F32).device(Device::Cuda(1)), &mut args);
    assert!(matches!(&other, Error::InvalidArgument(text) if text.contains("args.q")), "{other:?}");
    let none = wrong(builder(DType::F32).device(Device::Cuda(2)), &mut args);
    assert!(matches!(&none, Error::NoDevice(_) | Error::InvalidArgument(_)), "{none:?}");
    let mut args = args.seqused_k(&USED);
    let mixed = wrong(builder(DType::F32), &mut args);
    assert!(mixed.message().contains("mixed devices: args.seqused_k is in memory of the host"), "{mixed:?}");
}
