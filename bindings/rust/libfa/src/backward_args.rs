//! fa_backward_args: the inputs of the backward pass, and the tensors for the gradients.
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use fa_sys::*;

use crate::fields::optional_inputs;
use crate::inputs::{arrays, inputs, offsets, resources, tensors, Seen};
use crate::{Array, Result, TensorMut, TensorRef, Workspace};

/// The tensors of one call of [`Op::backward`](crate::Op::backward); letters are those of [`ForwardArgs`](crate::ForwardArgs).
/// Gradients that are not given are not computed. They are f32, f16 or bf16, whatever the inputs are.
///
/// ```
/// # use libfa::*;
/// let data = vec![0.1f32; 32 * 4 * 64];
/// let (mut out, mut lse) = (vec![0f32; 32 * 4 * 64], vec![0f32; 4 * 32]);
/// let (mut dq, mut dkv) = (vec![0f32; 32 * 4 * 64], vec![0f32; 32 * 2 * 4 * 64]);
/// let (shape, rows) = ([1, 32, 4, 64], [1, 4, 32, 1]);
/// let op = Op::builder(DType::F32, 64).mask(Mask::Causal).build()?;
/// let q = TensorRef::new(&data, shape)?; // k, v and dout are the same here
/// op.forward(&mut ForwardArgs::new(q, q, q, TensorMut::new(&mut out, shape)?).lse(TensorMut::new(&mut lse, rows)?))?;
///
/// let (dk, dv) = dkv.split_at_mut(32 * 4 * 64);
/// let mut args = BackwardArgs::new(q, q, q, TensorRef::new(&lse, rows)?, q)
///     .out(TensorRef::new(&out, shape)?)
///     .dq(TensorMut::new(&mut dq, shape)?)
///     .add_to_dk(TensorMut::new(dk, shape)?) // to the contents of dk
///     .dv(TensorMut::new(dv, shape)?);
/// op.backward(&mut args)?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "Op::backward computes it"]
pub struct BackwardArgs<'a> {
    raw: fa_backward_args,
    seen: Seen,
    borrow: PhantomData<&'a mut [u8]>,
}

// Borrows of Send and Sync memory; the stream is a handle that any thread may use.
unsafe impl Send for BackwardArgs<'_> {}
unsafe impl Sync for BackwardArgs<'_> {}

macro_rules! added {
    ($($name:ident $gradient:ident $bit:ident;)*) => {
        $(#[doc = concat!("As [`", stringify!($gradient), "`](Self::", stringify!($gradient), "), added to the tensor; f32.")]
        pub fn $name(mut self, $gradient: TensorMut<'a>) -> Self {
            self.raw.accumulate |= $bit;
            self.$gradient($gradient)
        })*
    };
}

impl<'a> BackwardArgs<'a> {
    /// The required inputs in addition to [`out`](Self::out) or [`delta`](Self::delta): `q`, `k`, `v` as they were given to
    /// [`Op::forward`](crate::Op::forward), the `lse` (B, Hq, Sq, 1) that it wrote, and the gradient `dout` of its result, (B, Sq,
    /// Hq, Dv). The `lse` may be that of more keys than `k` has, as in ring attention.
    pub fn new(q: TensorRef<'a>, k: TensorRef<'a>, v: TensorRef<'a>, lse: TensorRef<'a>, dout: TensorRef<'a>) -> Self {
        let mut raw = MaybeUninit::<fa_backward_args>::zeroed();
        let raw = unsafe {
            fa_backward_args_init(raw.as_mut_ptr(), size_of::<fa_backward_args>());
            raw.assume_init()
        };
        BackwardArgs { raw, seen: Seen::default(), borrow: PhantomData }.q(q).k(k).v(v).lse(lse).dout(dout)
    }

    tensors! {
        q: TensorRef;
        k: TensorRef;
        v: TensorRef;
        lse: TensorRef;
        dout: TensorRef;
        /// The result of [`Op::forward`](crate::Op::forward). Not read where `delta` is given.
        pub out: TensorRef;
        /// In place of `out`: the dot product of `dout` and `out` of each row; shaped as `lse`; f32.
        pub delta: TensorRef;
        /// The gradient of `lse`, 0 where it is absent; shaped as `lse`; f32.
        pub dlse: TensorRef;
        /// Written: the gradient of q; (B, Sq, Hq, D).
        pub dq: TensorMut;
        /// Written: the gradient of k, summed over the query heads that read a head; (B, Sk, Hkv, D).
        pub dk: TensorMut;
        /// Written: the gradient of v, summed as that of k; (B, Sk, Hkv, Dv).
        pub dv: TensorMut;
        /// Written: the gradient of the bias, summed over dimensions that are 1; (B, Hq, Sq, Sk); f32, or the type of the bias.
        pub dbias: TensorMut;
        /// Written: the gradient of the sinks; (B or 1, Hq, 1, 1); f32.
        pub dsinks: TensorMut;
    }

    added! {
        add_to_dq dq FA_ACCUMULATE_DQ;
        add_to_dk dk FA_ACCUMULATE_DK;
        add_to_dv dv FA_ACCUMULATE_DV;
        add_to_dbias dbias FA_ACCUMULATE_DBIAS;
        add_to_dsinks dsinks FA_ACCUMULATE_DSINKS;
    }

    inputs!(fa_backward_args, "backward_workspace_size");
}
