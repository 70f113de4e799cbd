//! fa_merge_args: results over different keys, and where they are merged.
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use fa_sys::*;

use crate::inputs::{resources, tensors, Seen};
use crate::{Result, TensorMut, TensorRef, Workspace};

/// The parts of one call of [`Op::merge`](crate::Op::merge): 1 to 32 parts, each the `out` (B, Sq, Hq, Dv) and `lse` (B, Hq, Sq, 1)
/// that [`Op::forward`](crate::Op::forward) wrote for the same queries over other keys. They are f32, f16 or bf16, in any strides.
///
/// ```
/// # use libfa::*;
/// let (shape, rows) = ([1, 1, 1, 4], [1, 1, 1, 1]);
/// let (a, b, lse) = ([0f32, 2., 4., 6.], [2f32, 2., 2., 2.], [0.5f32]);
/// let mut out = [0f32; 4];
/// let op = Op::builder(DType::F32, 4).build()?;
/// let mut args = MergeArgs::new(TensorMut::new(&mut out, shape)?)
///     .part(TensorRef::new(&a, shape)?, TensorRef::new(&lse, rows)?)
///     .part(TensorRef::new(&b, shape)?, TensorRef::new(&lse, rows)?);
/// op.merge(&mut args)?;
/// assert_eq!(out, [1., 2., 3., 4.]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "Op::merge computes it"]
pub struct MergeArgs<'a> {
    raw: fa_merge_args,
    outs: Vec<fa_tensor>, // which raw points to
    lses: Vec<fa_tensor>,
    seen: Seen,
    borrow: PhantomData<&'a mut [u8]>,
}

// Borrows of Send and Sync memory; the stream is a handle that any thread may use.
unsafe impl Send for MergeArgs<'_> {}
unsafe impl Sync for MergeArgs<'_> {}

impl<'a> MergeArgs<'a> {
    /// No parts yet, and where their result goes: (B, Sq, Hq, Dv), of the type that the op has for out.
    pub fn new(out: TensorMut<'a>) -> Self {
        let mut raw = MaybeUninit::<fa_merge_args>::zeroed();
        let raw = unsafe {
            fa_merge_args_init(raw.as_mut_ptr(), size_of::<fa_merge_args>());
            raw.assume_init()
        };
        MergeArgs { raw, outs: Vec::new(), lses: Vec::new(), seen: Seen::default(), borrow: PhantomData }.out(out)
    }

    /// The first part, which the result takes the place of.
    pub fn in_place(out: TensorMut<'a>, lse: TensorMut<'a>) -> Self {
        let first = (out.raw, lse.raw);
        MergeArgs::new(out).lse(lse).push(first.0, first.1)
    }

    /// The next part, in the order in which they are merged. One whose lse is -inf counts for nothing, whatever out holds.
    pub fn part(mut self, out: TensorRef<'a>, lse: TensorRef<'a>) -> Self {
        self.raw.stream = self.seen.tensor("outs", out.on_device, out.stream, self.raw.stream);
        self.raw.stream = self.seen.tensor("lses", lse.on_device, lse.stream, self.raw.stream);
        self.push(out.raw, lse.raw)
    }

    fn push(mut self, out: fa_tensor, lse: fa_tensor) -> Self {
        self.outs.push(out);
        self.lses.push(lse);
        (self.raw.outs, self.raw.lses) = (self.outs.as_ptr(), self.lses.as_ptr());
        self.raw.num_parts = i32::try_from(self.outs.len()).unwrap_or(i32::MAX);
        self
    }

    tensors! {
        out: TensorMut;
        /// Written: the log-sum-exp over all keys; (B, Hq, Sq, 1); f32.
        pub lse: TensorMut;
        /// True: merge; false: the row of the first part; (B or 1, Hq or 1, Sq, 1); bool or u8.
        pub mask: TensorRef;
    }

    /// Every lse, read or written, is a logarithm to base 2.
    pub fn base_2(mut self, base_2: bool) -> Self {
        self.raw.flags = if base_2 { FA_MERGE_BASE_2 } else { 0 };
        self
    }

    resources!(fa_merge_args, "merge_workspace_size");

    pub(crate) fn check(&self, device: fa_device) -> Result<()> {
        self.seen.check(device, self.raw.out.shape[0])
    }
}
