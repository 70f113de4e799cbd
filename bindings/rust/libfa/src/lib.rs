#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))] // which feature each item needs, on docs.rs' nightly compiler
#![warn(missing_docs, clippy::pedantic)]
#![allow(clippy::doc_markdown)] // names of fa.h, as it writes them
#![allow(clippy::wildcard_imports)] // all names of fa_sys begin with fa_
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)] // lengths are below 2^63

mod append_args;
mod args;
mod array;
mod attention;
mod backward_args;
mod builder;
#[cfg(feature = "candle")]
#[cfg_attr(docsrs, doc(cfg(feature = "candle")))]
pub mod candle;
#[cfg(feature = "cudarc")]
#[cfg_attr(docsrs, doc(cfg(feature = "cudarc")))]
pub mod cudarc;
mod dtype;
mod error;
mod fields;
mod info;
mod inputs;
mod merge_args;
#[cfg(feature = "ndarray")]
mod ndarray;
mod op;
mod parallel;
#[cfg(feature = "rayon")]
mod rayon;
mod tensor;
mod workspace;

pub use append_args::{AppendArgs, ComputedScales};
pub use args::ForwardArgs;
pub use array::Array;
pub use attention::attention;
pub use backward_args::BackwardArgs;
pub use builder::{Device, Mask, OpBuilder};
pub use dtype::{DType, Element};
pub use error::{Error, Result};
pub use info::{build_info, kernels, set_log, shutdown, version, Kernel, Log};
pub use merge_args::MergeArgs;
pub use op::Op;
pub use parallel::{ParallelFor, Tasks};
pub use tensor::{TensorMut, TensorRef};
pub use workspace::Workspace;

/// The raw bindings, for uses beyond this layer.
pub use fa_sys as sys;
/// The element types f16 and bf16.
pub use half;
