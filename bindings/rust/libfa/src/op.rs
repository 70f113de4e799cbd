//! fa_op: an attention, ready to run.
use std::fmt;
use std::ptr::{null_mut, NonNull};

use fa_sys::*;

use crate::error::{check, text};
use crate::parallel::{self, Host};
use crate::{AppendArgs, BackwardArgs, DType, ForwardArgs, MergeArgs, OpBuilder, ParallelFor, Result};

/// An attention, ready to run. Immutable, and shared freely between threads.
///
/// ```
/// use libfa::{ForwardArgs, DType, Mask, Op, TensorMut, TensorRef};
///
/// let attention = Op::builder(DType::F32, 64).mask(Mask::Causal).build()?;
/// let (queries, keys) = ([1, 3, 4, 64], [1, 5, 2, 64]); // batch, sequence, heads, head dimension
/// let (q, k, v) = (vec![0.1; 3 * 4 * 64], vec![0.2; 5 * 2 * 64], vec![0.3; 5 * 2 * 64]);
/// let mut out = vec![0f32; 3 * 4 * 64];
/// let (q, k, v) = (TensorRef::new(&q, queries)?, TensorRef::new(&k, keys)?, TensorRef::new(&v, keys)?);
/// attention.forward(&mut ForwardArgs::new(q, k, v, TensorMut::new(&mut out, queries)?))?;
/// assert!(out.iter().all(|x| (x - 0.3).abs() < 1e-6));
///
/// let out: Vec<f32> = attention.attention(q, k, v)?; // the same, in a new vector
/// # assert_eq!(out.len(), 3 * 4 * 64);
/// # Ok::<(), libfa::Error>(())
/// ```
///
/// An op and its calls borrow their tensors: neither an op nor a tensor can be used after its end, nor can an output be
/// read, written or be an input too while a call may write it. None of these compiles:
///
/// ```compile_fail,E0505
/// # use libfa::*;
/// let op = Op::builder(DType::F32, 64).build().unwrap();
/// let name = &op;
/// drop(op);
/// name.kernel();
/// ```
///
/// ```compile_fail,E0502
/// # use libfa::*;
/// let mut q = [0f32; 64];
/// let view = TensorRef::new(&q, [1, 1, 1, 64]).unwrap();
/// let out = TensorMut::new(&mut q, [1, 1, 1, 64]).unwrap();
/// ForwardArgs::new(view, view, view, out);
/// ```
///
/// ```compile_fail,E0596
/// # use libfa::*;
/// let q = [0f32; 64];
/// TensorMut::new(&mut q, [1, 1, 1, 64]).unwrap();
/// ```
pub struct Op {
    raw: NonNull<fa_op>,
    device: fa_device,
    _host: Option<Box<Host>>, // outlives raw, which points to it
}

// fa.h: every function may be called from any thread at any time, on the same fa_op too.
unsafe impl Send for Op {}
unsafe impl Sync for Op {}

impl Op {
    /// Describes an attention of queries of type `dtype`, over heads of `head_dim` elements.
    pub fn builder(dtype: DType, head_dim: usize) -> OpBuilder {
        OpBuilder::new(dtype, head_dim)
    }

    pub(crate) fn create(mut desc: fa_desc, pool: Option<Box<dyn ParallelFor>>) -> Result<Op> {
        let host = pool.map(|pool| Box::new(Host { pool }));
        if let Some(host) = &host {
            desc.parallel_for = Some(parallel::parallel_for);
            desc.parallel_for_user = (&raw const **host).cast_mut().cast();
        }
        let mut raw = null_mut();
        check(unsafe { fa_create(&raw const desc, &raw mut raw) })?;
        let raw = NonNull::new(raw).expect("fa_create stores an op when it returns FA_OK");
        Ok(Op { raw, device: desc.device, _host: host })
    }

    /// Computes out, and lse where it is given. On the CPU they are there when it returns; on CUDA the work is enqueued on the
    /// stream of `args`.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) by the name of the argument;
    /// [`Unsupported`](crate::Error::Unsupported), [`NoDevice`](crate::Error::NoDevice),
    /// [`OutOfMemory`](crate::Error::OutOfMemory), [`Driver`](crate::Error::Driver). Nothing was computed, unless the driver
    /// failed meanwhile.
    ///
    /// # Panics
    /// When the pool of [`OpBuilder::parallel_for`] has panicked: with its panic, after the results are complete.
    pub fn forward(&self, args: &mut ForwardArgs<'_>) -> Result<()> {
        args.check(self.device)?;
        let status = unsafe { fa_forward(self.raw.as_ptr(), args.raw()) };
        parallel::resume_panic();
        check(status)
    }

    /// The size of the [`Workspace`](crate::Workspace) that [`forward`](Op::forward) needs. It follows from shapes, the bounds
    /// `max_seqlen_*` and `num_splits`, and never falls when one of the bounds rises.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument), as those of [`forward`](Op::forward).
    pub fn workspace_size(&self, args: &ForwardArgs<'_>) -> Result<usize> {
        args.check(self.device)?;
        let mut bytes = 0;
        check(unsafe { fa_forward_workspace_size(self.raw.as_ptr(), args.raw(), &raw mut bytes) })?;
        Ok(bytes)
    }

    /// Computes the gradients that `args` has room for, for all that [`forward`](Op::forward) takes but pages, and as it does:
    /// bitwise the same for every number of threads, there when it returns on the CPU, enqueued on CUDA.
    ///
    /// # Errors
    /// As [`forward`](Op::forward): nothing was computed.
    ///
    /// # Panics
    /// As [`forward`](Op::forward).
    pub fn backward(&self, args: &mut BackwardArgs<'_>) -> Result<()> {
        args.check(self.device)?;
        let status = unsafe { fa_backward(self.raw.as_ptr(), args.raw()) };
        parallel::resume_panic();
        check(status)
    }

    /// The size of the [`Workspace`](crate::Workspace) that [`backward`](Op::backward) needs, which grows as that of
    /// [`workspace_size`](Op::workspace_size) and linearly with the lengths.
    ///
    /// # Errors
    /// As those of [`backward`](Op::backward).
    pub fn backward_workspace_size(&self, args: &BackwardArgs<'_>) -> Result<usize> {
        args.check(self.device)?;
        let mut bytes = 0;
        check(unsafe { fa_backward_workspace_size(self.raw.as_ptr(), args.raw(), &raw mut bytes) })?;
        Ok(bytes)
    }

    /// Merges results over different keys into the result over all of them; there when it returns on the CPU, enqueued on CUDA.
    ///
    /// # Errors
    /// As [`forward`](Op::forward): nothing was computed.
    ///
    /// # Panics
    /// As [`forward`](Op::forward).
    pub fn merge(&self, args: &mut MergeArgs<'_>) -> Result<()> {
        args.check(self.device)?;
        let status = unsafe { fa_merge(self.raw.as_ptr(), args.raw()) };
        parallel::resume_panic();
        check(status)
    }

    /// The size of the [`Workspace`](crate::Workspace) that [`merge`](Op::merge) needs: 0 in this version.
    ///
    /// # Errors
    /// As those of [`merge`](Op::merge).
    pub fn merge_workspace_size(&self, args: &MergeArgs<'_>) -> Result<usize> {
        args.check(self.device)?;
        let mut bytes = 0;
        check(unsafe { fa_merge_workspace_size(self.raw.as_ptr(), args.raw(), &raw mut bytes) })?;
        Ok(bytes)
    }

    /// Writes new keys and values into a cache, in its type, and rotates them and q where `args` has tables of a rotary embedding;
    /// there when it returns on the CPU, enqueued on CUDA.
    ///
    /// # Errors
    /// As [`forward`](Op::forward): nothing was written.
    ///
    /// # Panics
    /// As [`forward`](Op::forward).
    pub fn append(&self, args: &mut AppendArgs<'_>) -> Result<()> {
        args.check(self.device)?;
        let status = unsafe { fa_append(self.raw.as_ptr(), args.raw()) };
        parallel::resume_panic();
        check(status)
    }

    /// The size of the [`Workspace`](crate::Workspace) that [`append`](Op::append) needs: 0 in this version.
    ///
    /// # Errors
    /// As those of [`append`](Op::append).
    pub fn append_workspace_size(&self, args: &AppendArgs<'_>) -> Result<usize> {
        args.check(self.device)?;
        let mut bytes = 0;
        check(unsafe { fa_append_workspace_size(self.raw.as_ptr(), args.raw(), &raw mut bytes) })?;
        Ok(bytes)
    }

    /// The name of the kernel that it runs: `cpu.avx2`.
    #[must_use]
    pub fn kernel(&self) -> &'static str {
        text(unsafe { fa_op_kernel_name(self.raw.as_ptr()) })
    }

    /// For calls of [`sys`](crate::sys); this object keeps ownership.
    #[must_use]
    pub fn raw(&self) -> *mut fa_op {
        self.raw.as_ptr()
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        unsafe { fa_destroy(self.raw.as_ptr()) }
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Op").field("kernel", &self.kernel()).finish()
    }
}
