//! The arrays of int32_t of a call: lengths, offsets and indices of the sequences.
use std::marker::PhantomData;

/// A borrowed array of one `i32` for each sequence (or one more, for offsets). Made from slices, arrays and vectors.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    pub(crate) data: *const i32,
    pub(crate) length: usize,
    pub(crate) on_device: bool,
    borrow: PhantomData<&'a [i32]>,
}

impl Array<'_> {
    /// An array in a device's memory.
    ///
    /// # Safety
    /// `data` has `length` entries in memory that the op's device can reach, which nobody writes until the work of every call
    /// that is given them has ended on its stream; they are in the range that the header gives, which is not checked there.
    #[must_use]
    pub unsafe fn on_device(data: *const i32, length: usize) -> Self {
        Array { data, length, on_device: true, borrow: PhantomData }
    }
}

impl<'a> From<&'a [i32]> for Array<'a> {
    fn from(slice: &'a [i32]) -> Self {
        Array { data: slice.as_ptr(), length: slice.len(), on_device: false, borrow: PhantomData }
    }
}

impl<'a, const N: usize> From<&'a [i32; N]> for Array<'a> {
    fn from(array: &'a [i32; N]) -> Self {
        array.as_slice().into()
    }
}

impl<'a> From<&'a Vec<i32>> for Array<'a> {
    fn from(vector: &'a Vec<i32>) -> Self {
        vector.as_slice().into()
    }
}
