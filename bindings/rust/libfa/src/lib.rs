#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod args;
mod array;
mod builder;
mod dtype;
mod error;
mod info;
#[cfg(feature = "ndarray")]
mod ndarray;
mod op;
mod parallel;
#[cfg(feature = "rayon")]
mod rayon;
mod tensor;
mod workspace;

pub use args::Args;
pub use array::Array;
pub use builder::{Device, Mask, OpBuilder};
pub use dtype::{DType, Element};
pub use error::{Error, Result};
pub use info::{build_info, kernels, set_log, shutdown, version, Kernel, Log};
pub use op::Op;
pub use parallel::{ParallelFor, Tasks};
pub use tensor::{TensorMut, TensorRef};
pub use workspace::Workspace;

/// The raw bindings, for what this layer does not say.
pub use fa_sys as sys;
/// The element types f16 and bf16.
pub use half;
