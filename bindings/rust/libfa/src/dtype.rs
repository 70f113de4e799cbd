//! Element types, as values and as Rust's types.
use fa_sys::*;
use half::{bf16, f16};

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// IEEE 754 binary32, `f32`.
    F32,
    /// IEEE 754 binary16, [`half::f16`].
    F16,
    /// The upper half of a binary32, [`half::bf16`].
    BF16,
    /// One byte, true when not zero: `bool` or `u8`.
    Bool,
    /// `i32`.
    I32,
}

impl DType {
    /// The fa_dtype.
    #[must_use]
    pub fn raw(self) -> fa_dtype {
        match self {
            DType::F32 => FA_F32,
            DType::F16 => FA_F16,
            DType::BF16 => FA_BF16,
            DType::Bool => FA_BOOL,
            DType::I32 => FA_I32,
        }
    }
}

/// A type that tensors can have elements of.
///
/// # Safety
/// The type has the size and the alignment of `DTYPE`, and every value that the library writes is one of it.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The library's name for the type.
    const DTYPE: DType;
}

unsafe impl Element for f32 {
    const DTYPE: DType = DType::F32;
}
unsafe impl Element for f16 {
    const DTYPE: DType = DType::F16;
}
unsafe impl Element for bf16 {
    const DTYPE: DType = DType::BF16;
}
// The library writes tensors of floating-point numbers only, so no bool is written.
unsafe impl Element for bool {
    const DTYPE: DType = DType::Bool;
}
unsafe impl Element for u8 {
    const DTYPE: DType = DType::Bool;
}
unsafe impl Element for i32 {
    const DTYPE: DType = DType::I32;
}
