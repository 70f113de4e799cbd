//! cudarc's slices as tensors of calls on a stream. cudarc still tracks their uses: the stream waits for whatever wrote a
//! slice before, and whoever uses it afterwards waits for the call.
use std::ffi::c_void;
use std::marker::PhantomData;

use ::cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};

use crate::tensor::{contiguous, view};
use crate::{DType, Element, Error, Result, TensorMut, TensorRef};

/// A slice that calls on a stream read: its tensors put their call there. To be dropped when the calls are enqueued.
///
/// ```no_run
/// # use libfa::{cudarc::{Read, Write}, *};
/// # fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
/// let stream = ::cudarc::driver::CudaContext::new(0)?.new_stream()?;
/// let kv = stream.clone_htod(&vec![0.1f32; 2 * 1024 * 8 * 128])?;
/// let mut out = stream.alloc_zeros::<f32>(1024 * 8 * 128)?;
/// let op = Op::builder(DType::F32, 128).mask(Mask::Causal).device(Device::Cuda(0)).build()?;
/// {
///     let (kv, mut out) = (Read::new(&kv, &stream), Write::new(&mut out, &stream));
///     let shape = [1, 1024, 8, 128];
///     let k = kv.strided(0, shape, [0, 2048, 128, 1])?;
///     let v = kv.strided(1024, shape, [0, 2048, 128, 1])?;
///     op.forward(&mut ForwardArgs::new(k, k, v, out.tensor(shape)?))?;
/// }
/// let out = stream.clone_dtoh(&out)?; // after the call
/// # Ok(()) }
/// ```
pub struct Read<'a, T> {
    data: *const c_void,
    length: usize,
    stream: *mut c_void,
    _used: SyncOnDrop<'a>,
    elements: PhantomData<&'a [T]>,
}

/// A slice that calls on a stream write.
pub struct Write<'a, T> {
    data: *mut c_void,
    length: usize,
    stream: *mut c_void,
    _used: SyncOnDrop<'a>,
    elements: PhantomData<&'a mut [T]>,
}

impl<'a, T: Element> Read<'a, T> {
    /// A `CudaSlice`, or a view of one.
    pub fn new<S: DevicePtr<T>>(slice: &'a S, stream: &'a CudaStream) -> Self {
        let (address, used) = slice.device_ptr(stream);
        let (data, stream) = (address as *const c_void, stream.cu_stream().cast());
        Read { data, length: slice.len(), stream, _used: used, elements: PhantomData }
    }

    /// A contiguous tensor, last dimension fastest: exactly the elements of the slice.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where the slice has other than the shape's number of elements, or integers, whose contents
    /// nobody would check: [`TensorRef::on_device`] takes them.
    pub fn tensor(&self, shape: [usize; 4]) -> Result<TensorRef<'_>> {
        numbers(T::DTYPE)?;
        Ok(TensorRef::of_stream(contiguous(self.data, self.length, T::DTYPE, shape)?, self.stream))
    }

    /// A tensor whose element (0, 0, 0, 0) is number `first` of the slice, with strides that count elements.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), where they lead out of the slice.
    pub fn strided(&self, first: usize, shape: [usize; 4], stride: [isize; 4]) -> Result<TensorRef<'_>> {
        numbers(T::DTYPE)?;
        let raw = view(self.data, self.length, size_of::<T>(), T::DTYPE, first, shape, stride)?;
        Ok(TensorRef::of_stream(raw, self.stream))
    }
}

impl<'a, T: Element> Write<'a, T> {
    /// A `CudaSlice`, or a mutable view of one.
    pub fn new<S: DevicePtrMut<T>>(slice: &'a mut S, stream: &'a CudaStream) -> Self {
        let length = slice.len();
        let (address, used) = slice.device_ptr_mut(stream);
        let (data, stream) = (address as *mut c_void, stream.cu_stream().cast());
        Write { data, length, stream, _used: used, elements: PhantomData }
    }

    /// A contiguous tensor, last dimension fastest: exactly the elements of the slice.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where the slice has other than the shape's number of elements.
    pub fn tensor(&mut self, shape: [usize; 4]) -> Result<TensorMut<'_>> {
        Ok(TensorMut::of_stream(contiguous(self.data, self.length, T::DTYPE, shape)?, self.stream))
    }
}

fn numbers(dtype: DType) -> Result<()> {
    if dtype != DType::I32 {
        return Ok(());
    }
    Err(Error::invalid("a slice of i32 is no tensor of numbers: give a block table by TensorRef::on_device".to_owned()))
}
