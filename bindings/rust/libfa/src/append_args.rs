//! fa_append_args: new keys and values, and the cache that they are written into.
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use fa_sys::*;

use crate::fields::append_inputs;
use crate::inputs::{arrays, offsets, resources, tensors, Seen};
use crate::{Array, Result, TensorMut, TensorRef, Workspace};

/// The tensors of one call of [`Op::append`](crate::Op::append). B is the number of sequences, Sn new tokens of each; packed by
/// `cu_seqlens_new`, tensors of tokens are (1, `total_n`, ..). Numbers are rounded to the type of the cache.
///
/// A new token goes to the row that follows those that the cache holds of its sequence (`cache_seqlens`, else 0), through
/// `block_table` where the cache is paged, or to its entry of `slot_mapping`: page * page size + row.
///
/// ```
/// # use libfa::*;
/// let (k, v) = ([1f32, 0., 2., 0.], [5f32, 6., 7., 8.]); // one token with one head of 4 elements
/// let (cos, sin) = ([1f32, 0.], [0f32, 1.]); // of two positions: the second one turns the pair by 90 degrees
/// let (mut k_cache, mut v_cache) = ([0f32; 3 * 4], [0f32; 3 * 4]);
/// let (token, cache, table) = ([1, 1, 1, 4], [1, 3, 1, 4], [1, 2, 1, 1]);
/// let op = Op::builder(DType::F32, 4).build()?;
/// let mut args = AppendArgs::new(
///     TensorRef::new(&k, token)?,
///     TensorRef::new(&v, token)?,
///     TensorMut::new(&mut k_cache, cache)?,
///     TensorMut::new(&mut v_cache, cache)?,
/// )
/// .cache_seqlens(&[1])
/// .rotary_cos(TensorRef::new(&cos, table)?)
/// .rotary_sin(TensorRef::new(&sin, table)?)
/// .rotary_interleaved(true);
/// op.append(&mut args)?;
/// assert_eq!(k_cache, [0., 0., 0., 0., 0., 1., 2., 0., 0., 0., 0., 0.]);
/// assert_eq!(v_cache[4..8], v);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "Op::append writes the cache"]
pub struct AppendArgs<'a> {
    raw: fa_append_args,
    seen: Seen,
    borrow: PhantomData<&'a mut [u8]>,
}

// Borrows of Send and Sync memory; the stream is a handle that any thread may use.
unsafe impl Send for AppendArgs<'_> {}
unsafe impl Sync for AppendArgs<'_> {}

macro_rules! flags {
    ($($(#[$meta:meta])* $name:ident: $flag:ident;)*) => {
        $($(#[$meta])* pub fn $name(mut self, on: bool) -> Self {
            self.raw.flags = if on { self.raw.flags | $flag } else { self.raw.flags & !$flag };
            self
        })*
    };
}

/// What a call with [`AppendArgs::compute_scales`] writes; the default is nothing, as blocks need.
#[derive(Debug, Default)]
pub struct ComputedScales<'a> {
    /// Factors of `k_cache`'s codes.
    pub k_scale: Option<TensorMut<'a>>,
    /// Factors of `v_cache`'s codes.
    pub v_scale: Option<TensorMut<'a>>,
    /// Subtracted from `k_cache`'s codes.
    pub k_zero: Option<TensorMut<'a>>,
    /// Subtracted from `v_cache`'s codes.
    pub v_zero: Option<TensorMut<'a>>,
}

/// Setters of tensors that are read, for which none may be written.
macro_rules! given_scales {
    ($($(#[$meta:meta])* $name:ident;)*) => {
        $($(#[$meta])* pub fn $name(mut self, $name: TensorRef<'a>) -> Self {
            self.raw.stream = self.seen.tensor(stringify!($name), $name.on_device, $name.stream, self.raw.stream);
            self.raw.flags &= !FA_APPEND_COMPUTE_SCALES;
            self.raw.$name = $name.raw;
            self
        })*
    };
}

macro_rules! computed_scales {
    ($self:ident, $scales:ident, $($name:ident)*) => {
        $($self.raw.$name = unsafe { MaybeUninit::zeroed().assume_init() }; // absent
        if let Some(tensor) = $scales.$name {
            $self.raw.stream = $self.seen.tensor(stringify!($name), tensor.on_device, tensor.stream, $self.raw.stream);
            $self.raw.$name = tensor.raw;
        })*
    };
}

impl<'a> AppendArgs<'a> {
    /// The new `k` (B, Sn, Hkv, D) and `v` (B, Sn, Hkv, Dv), f32, f16, bf16 or of the op's type of q, and the cache that is
    /// written: `k_cache` (B, Sk, Hkv, D) and `v_cache` (B, Sk, Hkv, Dv), of the op's types of keys and values. A paged cache is
    /// (pages, page size, Hkv, D), and one that `kv_batch_idx` chooses entries of may have any number of them.
    pub fn new(k: TensorRef<'a>, v: TensorRef<'a>, k_cache: TensorMut<'a>, v_cache: TensorMut<'a>) -> Self {
        AppendArgs::keys(k, k_cache).v(v).v_cache(v_cache)
    }

    /// Of a cache whose keys hold the values: without `v` and `v_cache`.
    pub fn keys(k: TensorRef<'a>, k_cache: TensorMut<'a>) -> Self {
        let mut raw = MaybeUninit::<fa_append_args>::zeroed();
        let raw = unsafe {
            fa_append_args_init(raw.as_mut_ptr(), size_of::<fa_append_args>());
            raw.assume_init()
        };
        AppendArgs { raw, seen: Seen::default(), borrow: PhantomData }.k(k).k_cache(k_cache)
    }

    tensors! {
        k: TensorRef;
        v: TensorRef;
        k_cache: TensorMut;
        v_cache: TensorMut;
    }

    append_inputs!();

    given_scales! {
        /// Factors of `k_cache`'s codes: (B, Sk, Hkv, G), each may be 1; f32, f16 or bf16.
        k_scale;
        /// Factors of `v_cache`'s codes.
        v_scale;
        /// Subtracted from `k_cache`'s codes.
        k_zero;
        /// Subtracted from `v_cache`'s codes.
        v_zero;
    }

    /// Scales, and zeros of FA_U4, that the call computes and writes, in place of any that were given: (B, Sk, Hkv, G), one for
    /// each token, head and group of channels.
    pub fn compute_scales(mut self, scales: ComputedScales<'a>) -> Self {
        self.raw.flags |= FA_APPEND_COMPUTE_SCALES;
        computed_scales!(self, scales, k_scale v_scale k_zero v_zero);
        self
    }

    /// `q` and `q_out` in one: queries that are rotated in place; of the op's type of q.
    pub fn q_in_place(mut self, q: TensorMut<'a>) -> Self {
        self.raw.q = q.raw;
        self.q_out(q)
    }

    flags! {
        /// Pairs of the rotary embedding are neighbours, as in GPT-J; else they are half of its elements apart, as in GPT-NeoX.
        rotary_interleaved: FA_APPEND_ROTARY_INTERLEAVED;
        /// The last elements of a row are rotated, not the first.
        rotary_tail: FA_APPEND_ROTARY_TAIL;
    }

    /// No sequence has more new tokens; 0: unknown.
    pub fn max_seqlen_new(mut self, tokens: usize) -> Self {
        self.raw.max_seqlen_new = i64::try_from(tokens).unwrap_or(i64::MAX);
        self
    }

    resources!(fa_append_args, "append_workspace_size");

    pub(crate) fn check(&self, device: fa_device) -> Result<()> {
        self.seen.check(device, self.raw.k.shape[0])
    }
}
