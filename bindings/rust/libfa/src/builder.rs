//! fa_desc as a builder: an attention, for the life of its op.
use std::fmt;
use std::mem::MaybeUninit;

use fa_sys::*;

use crate::{DType, Op, ParallelFor, Result, TensorRef};

/// Where an op runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Device {
    /// On the GPU where the tensors live on one, else on the CPU.
    Auto,
    /// On the CPU.
    Cpu,
    /// On the GPU of this index.
    Cuda(u32),
}

/// Which keys a query attends, before windows, chunks and mask tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mask {
    /// All.
    None,
    /// Those up to its own position, the last query seeing the last key (bottom-right).
    Causal,
    /// Those up to its own position, query 0 seeing key 0 only (top-left).
    CausalTopLeft,
}

/// Describes an attention; [`build`](OpBuilder::build) makes it an [`Op`].
///
/// ```
/// # use libfa::*;
/// let op = Op::builder(DType::F32, 64).mask(Mask::Causal).window_left(128).softcap(30.0).build()?;
/// assert!(Op::builder(DType::F32, 64).softcap(-1.0).build().unwrap_err().message().contains("softcap"));
/// # Ok::<(), Error>(())
/// ```
#[must_use = "build() makes it an Op"]
pub struct OpBuilder {
    desc: fa_desc,
    pool: Option<Box<dyn ParallelFor>>,
}

macro_rules! types {
    ($($(#[$meta:meta])* $field:ident;)*) => {
        $($(#[$meta])* pub fn $field(mut self, dtype: DType) -> Self {
            self.desc.$field = dtype.raw();
            self
        })*
    };
}

macro_rules! sizes {
    ($($(#[$meta:meta])* $field:ident: $kind:ty;)*) => {
        $($(#[$meta])* pub fn $field(mut self, $field: usize) -> Self {
            self.desc.$field = <$kind>::try_from($field).unwrap_or(<$kind>::MAX);
            self
        })*
    };
}

macro_rules! flags {
    ($($(#[$meta:meta])* $name:ident: $flag:ident;)*) => {
        $($(#[$meta])* pub fn $name(mut self, on: bool) -> Self {
            self.desc.flags = if on { self.desc.flags | $flag } else { self.desc.flags & !$flag };
            self
        })*
    };
}

impl OpBuilder {
    pub(crate) fn new(dtype_q: DType, head_dim: usize) -> OpBuilder {
        // Where there is no library to ask for the defaults, build() says so.
        let mut desc = MaybeUninit::<fa_desc>::zeroed();
        let mut desc = unsafe {
            if ensure_loaded().is_ok() {
                fa_desc_init(desc.as_mut_ptr(), size_of::<fa_desc>());
            }
            desc.assume_init()
        };
        desc.dtype_q = dtype_q.raw();
        desc.head_dim = i64::try_from(head_dim).unwrap_or(i64::MAX);
        OpBuilder { desc, pool: None }
    }

    /// The attention that tensors describe.
    pub(crate) fn for_tensors(q: &TensorRef<'_>, k: &TensorRef<'_>, v: &TensorRef<'_>, out: DType) -> OpBuilder {
        let mut builder = OpBuilder::new(out, 0);
        let desc = &mut builder.desc;
        (desc.dtype_q, desc.dtype_kv, desc.dtype_v) = (q.raw.dtype, k.raw.dtype, v.raw.dtype);
        desc.dtype_out = out.raw();
        (desc.head_dim, desc.head_dim_v) = (q.raw.shape[3], v.raw.shape[3]);
        builder
    }

    types! {
        /// The type of q, given to [`Op::builder`].
        dtype_q;
        /// The type of k and v; otherwise as q. May differ: an f16, bf16 or quantised cache under f32 queries.
        dtype_kv;
        /// The type of v; otherwise as k.
        dtype_v;
        /// The type of k_rope; otherwise as q.
        dtype_k_rope;
        /// The type of out; otherwise as q.
        dtype_out;
    }

    sizes! {
        /// The head dimension of q and k, given to [`Op::builder`].
        head_dim: i64;
        /// The head dimension of v and out; otherwise as that of q and k.
        head_dim_v: i64;
        /// The last elements of keys, which k_rope has; otherwise k has all.
        head_dim_rope: i64;
        /// Keys before its position that a query attends; otherwise all.
        window_left: i64;
        /// Keys after its position that a query attends; otherwise all. A causal mask allows none.
        window_right: i64;
        /// Queries attend keys of their own chunk of this many positions.
        attention_chunk: i64;
        /// Threads of the CPU; 0: `FA_NUM_THREADS`, else those that the process may use.
        num_threads: i32;
    }

    flags! {
        /// Allows an engine to trade bitwise reproducibility from run to run for speed.
        nondeterministic: FA_FLAG_NONDETERMINISTIC;
        /// A query's bits depend on its own row, keys and mask alone.
        batch_invariant: FA_FLAG_BATCH_INVARIANT;
        /// The bias is added before the softcap rather than after.
        bias_before_softcap: FA_FLAG_BIAS_BEFORE_SOFTCAP;
        /// `append` rotates keys by a Hadamard matrix, and `forward` queries: a few large channels of keys then cost the
        /// others less of the precision of integer codes.
        hadamard_k: FA_FLAG_HADAMARD_K;
        /// The same of values: `append` rotates them, and `forward` its results back.
        hadamard_v: FA_FLAG_HADAMARD_V;
        /// Promises that the device may use every pointer of a call, which then asks the driver about none, as `fa.h` describes it.
        /// For ops of [`Device::Cuda`] alone.
        device_pointers: FA_FLAG_DEVICE_POINTERS;
    }

    /// Where the op runs; otherwise [`Device::Auto`].
    pub fn device(mut self, device: Device) -> Self {
        (self.desc.device, self.desc.device_index) = match device {
            Device::Auto => (FA_DEVICE_AUTO, 0),
            Device::Cpu => (FA_DEVICE_CPU, 0),
            Device::Cuda(index) => (FA_DEVICE_CUDA, i32::try_from(index).unwrap_or(i32::MAX)),
        };
        self
    }

    /// Which keys a query attends; otherwise all.
    pub fn mask(mut self, mask: Mask) -> Self {
        self.desc.mask = match mask {
            Mask::None => FA_MASK_NONE,
            Mask::Causal => FA_MASK_CAUSAL,
            Mask::CausalTopLeft => FA_MASK_CAUSAL_TOP_LEFT,
        };
        self
    }

    /// The factor of the products; 0: 1 / sqrt(head_dim).
    pub fn softmax_scale(mut self, softmax_scale: f32) -> Self {
        self.desc.softmax_scale = softmax_scale;
        self
    }

    /// Scores become softcap * tanh(score / softcap); 0: they stay.
    pub fn softcap(mut self, softcap: f32) -> Self {
        self.desc.softcap = softcap;
        self
    }

    /// Work is done by this pool rather than by the library's own threads; [`num_threads`](Self::num_threads) parts at most.
    ///
    /// ```
    /// # use libfa::*;
    /// let scoped = |tasks: &Tasks| std::thread::scope(|scope| {
    ///     for i in 0..tasks.len() {
    ///         scope.spawn(move || tasks.run(i));
    ///     }
    /// });
    /// let op = Op::builder(DType::F32, 64).num_threads(4).parallel_for(scoped).build()?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn parallel_for(mut self, pool: impl ParallelFor + 'static) -> Self {
        self.pool = Some(Box::new(pool));
        self
    }

    /// The structure as the library gets it, but for the pool, which `build` adds.
    #[must_use]
    pub fn raw(&self) -> &fa_desc {
        &self.desc
    }

    /// Checks everything and takes the best kernel that supports it here.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) by the name of the field;
    /// [`Unsupported`](crate::Error::Unsupported) with each kernel's reason, [`NoDevice`](crate::Error::NoDevice),
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver).
    pub fn build(self) -> Result<Op> {
        ensure_loaded()?;
        Op::create(self.desc, self.pool)
    }
}

impl fmt::Debug for OpBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpBuilder").field("desc", &self.desc).field("pool", &self.pool.is_some()).finish()
    }
}
