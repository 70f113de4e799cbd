//! fa_forward_args: the tensors and arrays of one call, borrowed for as long as it is used.
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use fa_sys::*;

use crate::fields::{optional_inputs, quantised_inputs, rope_inputs, tree_inputs};
use crate::inputs::{arrays, inputs, offsets, resources, tensors, Seen};
use crate::{Array, Result, TensorMut, TensorRef, Workspace};

/// The tensors of one call. B is the number of sequences, Sq and Sk are rows of q and of k, Hq and Hkv heads.
#[derive(Debug)]
#[must_use = "Op::forward computes it"]
pub struct ForwardArgs<'a> {
    raw: fa_forward_args,
    seen: Seen,
    borrow: PhantomData<&'a mut [u8]>,
}

// Borrows of Send and Sync memory; the stream is a handle that any thread may use.
unsafe impl Send for ForwardArgs<'_> {}
unsafe impl Sync for ForwardArgs<'_> {}

impl<'a> ForwardArgs<'a> {
    /// The tensors that every call has: `q` (B, Sq, Hq, D), `k` (B, Sk, Hkv, D), `v` (B, Sk, Hkv, Dv), `out` (B, Sq, Hq, Dv).
    /// Packed by `cu_seqlens_*`: (1, total, H, D). Paged by `block_table`: k and v are (pages, page_size, Hkv, D).
    pub fn new(q: TensorRef<'a>, k: TensorRef<'a>, v: TensorRef<'a>, out: TensorMut<'a>) -> Self {
        let mut raw = MaybeUninit::<fa_forward_args>::zeroed();
        let raw = unsafe {
            fa_forward_args_init(raw.as_mut_ptr(), size_of::<fa_forward_args>());
            raw.assume_init()
        };
        ForwardArgs { raw, seen: Seen::default(), borrow: PhantomData }.q(q).k(k).v(v).out(out)
    }

    tensors! {
        q: TensorRef;
        k: TensorRef;
        v: TensorRef;
        out: TensorMut;
        /// Written: the logarithm of each query's sum, the sink included; (B, Hq, Sq, 1), packed (1, Hq, total_q, 1); f32.
        pub lse: TensorMut;
    }

    quantised_inputs!();
    tree_inputs!();
    rope_inputs!();

    inputs!(fa_forward_args, "workspace_size");

    /// The keys of each sequence are worked on in this many parts; 0: chosen.
    pub fn num_splits(mut self, parts: usize) -> Self {
        self.raw.num_splits = i32::try_from(parts).unwrap_or(i32::MAX);
        self
    }
}
