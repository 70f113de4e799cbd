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
    /// `i64`: positions and slots of [`AppendArgs`](crate::AppendArgs) alone.
    I64,
    /// Codes of quantised keys and values from here on: 8-bit signed integers.
    I8,
    /// float8_e4m3fn.
    E4M3,
    /// float8_e5m2.
    E5M2,
    /// Two 4-bit signed integers a byte, the first one in its low half.
    I4,
    /// Two 4-bit unsigned integers a byte.
    U4,
    /// Blocks of 32 elements, as ggml's `block_q8_0`: a binary16 scale and 32 bytes.
    Q8_0,
    /// Blocks of 32 elements, as ggml's `block_q4_0`: a binary16 scale and 16 bytes.
    Q4_0,
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
            DType::I64 => FA_I64,
            DType::I8 => FA_I8,
            DType::E4M3 => FA_E4M3,
            DType::E5M2 => FA_E5M2,
            DType::I4 => FA_I4,
            DType::U4 => FA_U4,
            DType::Q8_0 => FA_Q8_0,
            DType::Q4_0 => FA_Q4_0,
        }
    }

    /// The smallest part of a row that is whole bytes, as (elements, bytes).
    #[must_use]
    pub fn unit(self) -> (usize, usize) {
        match self {
            DType::I64 => (1, 8),
            DType::F32 | DType::I32 => (1, 4),
            DType::F16 | DType::BF16 => (1, 2),
            DType::Bool | DType::I8 | DType::E4M3 | DType::E5M2 => (1, 1),
            DType::I4 | DType::U4 => (2, 1),
            DType::Q8_0 => (32, 34),
            DType::Q4_0 => (32, 18),
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
unsafe impl Element for i64 {
    const DTYPE: DType = DType::I64;
}
