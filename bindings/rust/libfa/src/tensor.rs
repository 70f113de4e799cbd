//! fa_tensor as a borrow: of a slice whose bounds are checked, or of a device's memory at the caller's word.
use std::ffi::c_void;
use std::marker::PhantomData;

use fa_sys::*;

use crate::{DType, Element, Error, Result};

/// A tensor that is read: a view of (batch, sequence, heads, dim), or as the argument that it is given for says.
///
/// ```
/// # use libfa::*;
/// let packed = vec![0f32; 2 * 50 * 3 * 4 * 64];                  // (batch, sequence, 3, heads, dim)
/// let row = 3 * 4 * 64;
/// let k = TensorRef::strided(&packed, 4 * 64, [2, 50, 4, 64], [50 * row, row, 64, 1])?;
/// assert!(TensorRef::new(&packed, [2, 50, 4, 65]).is_err());      // not the number of elements
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct TensorRef<'a> {
    pub(crate) raw: fa_tensor,
    pub(crate) on_device: bool,
    pub(crate) stream: Option<*mut c_void>, // that its calls must be on
    borrow: PhantomData<&'a [u8]>,
}

/// A tensor that is written.
#[derive(Debug)]
#[must_use]
pub struct TensorMut<'a> {
    pub(crate) raw: fa_tensor,
    pub(crate) on_device: bool,
    pub(crate) stream: Option<*mut c_void>, // that its calls must be on
    borrow: PhantomData<&'a mut [u8]>,
}

// They are shared and unique borrows of memory whose elements are Send and Sync.
unsafe impl Send for TensorRef<'_> {}
unsafe impl Sync for TensorRef<'_> {}
unsafe impl Send for TensorMut<'_> {}
unsafe impl Sync for TensorMut<'_> {}

impl<'a> TensorRef<'a> {
    /// A contiguous tensor, last dimension fastest: exactly the elements of `data`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where `data` has other than the shape's number of elements.
    pub fn new<T: Element>(data: &'a [T], shape: [usize; 4]) -> Result<Self> {
        let raw = contiguous(data.as_ptr().cast(), data.len(), T::DTYPE, shape)?;
        Ok(TensorRef { raw, on_device: false, stream: None, borrow: PhantomData })
    }

    /// A contiguous tensor of quantised keys or values, whose shape counts elements: exactly the bytes of `data`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where `data` has other than the shape's number of bytes, or a row is not whole units of
    /// the type.
    pub fn codes(data: &'a [u8], dtype: DType, shape: [usize; 4]) -> Result<Self> {
        let raw = codes(data.as_ptr().cast_mut(), data.len(), dtype, shape)?;
        Ok(TensorRef { raw, on_device: false, stream: None, borrow: PhantomData })
    }

    /// A tensor whose element (0, 0, 0, 0) is `data[first]`. Strides count elements; they may be negative, or 0 to repeat.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where they lead out of `data`.
    pub fn strided<T: Element>(data: &'a [T], first: usize, shape: [usize; 4], stride: [isize; 4]) -> Result<Self> {
        let raw = view(data.as_ptr().cast(), data.len(), size_of::<T>(), T::DTYPE, first, shape, stride)?;
        Ok(TensorRef { raw, on_device: false, stream: None, borrow: PhantomData })
    }

    /// A tensor in a device's memory.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where a dimension is 2^63 or more.
    ///
    /// # Safety
    /// All elements are in memory that the op's device can reach, and nobody writes them until the work of every call that is
    /// given the tensor has ended on its stream. An engine on a device does not check the contents of block tables, positions and
    /// slots.
    pub unsafe fn on_device(data: *const c_void, dtype: DType, shape: [usize; 4], stride: [isize; 4]) -> Result<Self> {
        let raw = raw(data.cast_mut(), dtype, shape, stride)?;
        Ok(TensorRef { raw, on_device: true, stream: None, borrow: PhantomData })
    }

    /// Of memory that the stream orders.
    #[cfg(feature = "cudarc")]
    pub(crate) fn of_stream(raw: fa_tensor, stream: *mut c_void) -> Self {
        TensorRef { raw, on_device: true, stream: Some(stream), borrow: PhantomData }
    }

    /// (batch, sequence, heads, dim), or as the argument that it is given for says.
    #[must_use]
    pub fn shape(&self) -> [usize; 4] {
        self.raw.shape.map(|size| size as usize) // that it was made of
    }

    #[cfg(feature = "ndarray")]
    pub(crate) unsafe fn from_view(
        data: *const c_void,
        dtype: DType,
        shape: [usize; 4],
        stride: [isize; 4],
    ) -> Result<Self> {
        let raw = raw(data.cast_mut(), dtype, shape, stride)?;
        Ok(TensorRef { raw, on_device: false, stream: None, borrow: PhantomData })
    }
}

impl<'a> TensorMut<'a> {
    /// A contiguous tensor, last dimension fastest: exactly the elements of `data`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where `data` has other than the shape's number of elements.
    pub fn new<T: Element>(data: &'a mut [T], shape: [usize; 4]) -> Result<Self> {
        let raw = contiguous(data.as_mut_ptr().cast(), data.len(), T::DTYPE, shape)?;
        Ok(TensorMut { raw, on_device: false, stream: None, borrow: PhantomData })
    }

    /// A contiguous cache of quantised keys or values, as [`TensorRef::codes`].
    ///
    /// # Errors
    /// As [`TensorRef::codes`].
    pub fn codes(data: &'a mut [u8], dtype: DType, shape: [usize; 4]) -> Result<Self> {
        let raw = codes(data.as_mut_ptr(), data.len(), dtype, shape)?;
        Ok(TensorMut { raw, on_device: false, stream: None, borrow: PhantomData })
    }

    /// A tensor whose element (0, 0, 0, 0) is `data[first]`. Strides count elements and may be negative; no two elements may be
    /// the same.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where they lead out of `data`, or two elements may be the same.
    pub fn strided<T: Element>(data: &'a mut [T], first: usize, shape: [usize; 4], stride: [isize; 4]) -> Result<Self> {
        distinct(shape, stride)?;
        let raw = view(data.as_mut_ptr().cast(), data.len(), size_of::<T>(), T::DTYPE, first, shape, stride)?;
        Ok(TensorMut { raw, on_device: false, stream: None, borrow: PhantomData })
    }

    /// A tensor in a device's memory.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where a dimension is 2^63 or more.
    ///
    /// # Safety
    /// As [`TensorRef::on_device`], and nobody reads them meanwhile either; no two elements are the same.
    pub unsafe fn on_device(data: *mut c_void, dtype: DType, shape: [usize; 4], stride: [isize; 4]) -> Result<Self> {
        Ok(TensorMut { raw: raw(data, dtype, shape, stride)?, on_device: true, stream: None, borrow: PhantomData })
    }

    /// Of memory that the stream orders.
    #[cfg(feature = "cudarc")]
    pub(crate) fn of_stream(raw: fa_tensor, stream: *mut c_void) -> Self {
        TensorMut { raw, on_device: true, stream: Some(stream), borrow: PhantomData }
    }

    /// Of memory that may not have been written yet.
    pub(crate) unsafe fn contiguous(data: *mut c_void, dtype: DType, shape: [usize; 4]) -> Result<Self> {
        Ok(TensorMut { raw: initialised(data, dtype, shape)?, on_device: false, stream: None, borrow: PhantomData })
    }

    #[cfg(feature = "ndarray")]
    pub(crate) unsafe fn from_view(
        data: *mut c_void,
        dtype: DType,
        shape: [usize; 4],
        stride: [isize; 4],
    ) -> Result<Self> {
        Ok(TensorMut { raw: raw(data, dtype, shape, stride)?, on_device: false, stream: None, borrow: PhantomData })
    }
}

/// Bytes as elements of a quantised type.
fn codes(data: *mut u8, length: usize, dtype: DType, shape: [usize; 4]) -> Result<fa_tensor> {
    let (elements, bytes) = dtype.unit();
    let rows = shape[..3].iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    let size = rows.and_then(|rows| rows.checked_mul(shape[3] / elements)?.checked_mul(bytes));
    if shape[3] % elements != 0 || size != Some(length) {
        return Err(Error::invalid(format!(
            "shape is {shape:?} of {dtype:?}, whose {elements} elements have {bytes} bytes, but data has {length} bytes; \
             expected as many, and whole rows"
        )));
    }
    initialised(data.cast(), dtype, shape)
}

pub(crate) fn contiguous(data: *const c_void, length: usize, dtype: DType, shape: [usize; 4]) -> Result<fa_tensor> {
    let elements = shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    if elements != Some(length) {
        return Err(Error::invalid(format!(
            "shape is {shape:?}, {} elements, but data has {length}; expected as many, or TensorRef::strided for a part of it",
            elements.map_or("too many".to_owned(), |elements| elements.to_string()),
        )));
    }
    initialised(data.cast_mut(), dtype, shape)
}

fn initialised(data: *mut c_void, dtype: DType, shape: [usize; 4]) -> Result<fa_tensor> {
    let [d0, d1, d2, d3] = extents(shape)?;
    ensure_loaded()?;
    let mut tensor = std::mem::MaybeUninit::uninit();
    Ok(unsafe {
        fa_tensor_init(tensor.as_mut_ptr(), data, dtype.raw(), d0, d1, d2, d3);
        tensor.assume_init()
    })
}

pub(crate) fn view(
    data: *const c_void,
    length: usize,
    size: usize,
    dtype: DType,
    first: usize,
    shape: [usize; 4],
    stride: [isize; 4],
) -> Result<fa_tensor> {
    // Exact: a shape has less than 2^64, a stride less than 2^63 in magnitude.
    let (mut lowest, mut highest) = (first as i128, first as i128);
    for (extent, step) in shape.iter().zip(stride) {
        let reach = (extent.max(&1) - 1) as i128 * step as i128;
        *(if reach < 0 { &mut lowest } else { &mut highest }) += reach;
    }
    let empty = shape.contains(&0);
    if !empty && (lowest < 0 || highest >= length as i128) {
        return Err(Error::invalid(format!(
            "shape {shape:?} with strides {stride:?} from element {first} reaches elements {lowest} to {highest}, but data has \
             {length}; expected all of them within it"
        )));
    }
    let first = if empty { 0 } else { first };
    raw(data.cast::<u8>().wrapping_add(first * size).cast_mut().cast(), dtype, shape, stride)
}

fn raw(data: *mut c_void, dtype: DType, shape: [usize; 4], stride: [isize; 4]) -> Result<fa_tensor> {
    ensure_loaded()?; // so that whoever holds tensors may call the library
    Ok(fa_tensor {
        data,
        shape: extents(shape)?,
        stride: stride.map(|step| step as i64),
        dtype: dtype.raw(),
        reserved: 0,
    })
}

fn extents(shape: [usize; 4]) -> Result<[i64; 4]> {
    let mut extents = [0; 4];
    for (extent, size) in extents.iter_mut().zip(shape) {
        *extent = i64::try_from(size)
            .map_err(|_| Error::invalid(format!("shape is {shape:?}; expected dimensions below 2^63")))?;
    }
    Ok(extents)
}

/// Refuses strides by which two elements may be one, in the way of all layouts that nest. A stride of 0 is left to the library,
/// which refuses it by name.
fn distinct(shape: [usize; 4], stride: [isize; 4]) -> Result<()> {
    let mut steps: Vec<(usize, usize)> =
        (0..4).map(|axis| (stride[axis].unsigned_abs(), shape[axis])).filter(|step| step.0 > 0 && step.1 > 1).collect();
    steps.sort_unstable();
    let mut reach = 0u128;
    for (step, extent) in steps {
        if step as u128 <= reach {
            return Err(Error::invalid(format!(
                "strides {stride:?} of an output of shape {shape:?} overlap; expected a separate address for each element"
            )));
        }
        reach += (extent - 1) as u128 * step as u128;
    }
    Ok(())
}
