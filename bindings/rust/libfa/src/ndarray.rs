//! Four-dimensional arrays of the crate ndarray as tensors, in whatever strides they have.
use ::ndarray::{ArrayBase, Data, DataMut, Ix4};

use crate::{Element, Error, Result, TensorMut, TensorRef};

fn stride(strides: &[isize]) -> [isize; 4] {
    [strides[0], strides[1], strides[2], strides[3]]
}

/// ```
/// # use libfa::TensorRef;
/// let bhsd = ndarray::Array4::<f32>::zeros((2, 4, 50, 64));
/// let bshd = bhsd.view().permuted_axes([0, 2, 1, 3]);            // no copy
/// let q = TensorRef::try_from(&bshd)?;
/// # Ok::<(), libfa::Error>(())
/// ```
#[cfg_attr(docsrs, doc(cfg(feature = "ndarray")))]
impl<'a, T: Element, S: Data<Elem = T>> TryFrom<&'a ArrayBase<S, Ix4>> for TensorRef<'a> {
    type Error = Error;

    fn try_from(array: &'a ArrayBase<S, Ix4>) -> Result<Self> {
        let shape = <[usize; 4]>::from(array.dim());
        // An array's elements are readable at its strides for as long as it is borrowed.
        unsafe { TensorRef::from_view(array.as_ptr().cast(), T::DTYPE, shape, stride(array.strides())) }
    }
}

#[cfg_attr(docsrs, doc(cfg(feature = "ndarray")))]
impl<'a, T: Element, S: DataMut<Elem = T>> TryFrom<&'a mut ArrayBase<S, Ix4>> for TensorMut<'a> {
    type Error = Error;

    fn try_from(array: &'a mut ArrayBase<S, Ix4>) -> Result<Self> {
        let shape = <[usize; 4]>::from(array.dim());
        let stride = stride(array.strides());
        // So are those of an array that can be written, and no two of them are one.
        unsafe { TensorMut::from_view(array.as_mut_ptr().cast(), T::DTYPE, shape, stride) }
    }
}
