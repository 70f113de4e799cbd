//! Memory for the library's intermediate results, aligned as it asks.
use std::alloc::{alloc, dealloc, Layout};
use std::fmt;
use std::ptr::NonNull;

use crate::{Error, Result};

/// Memory for calls, of the size that [`Op::workspace_size`](crate::Op::workspace_size) returns. Calls that are under way at the same
/// time need one each.
///
/// ```
/// # use libfa::*;
/// # let (q, k, v, mut out) = ([0f32; 64], [0f32; 64], [0f32; 64], [0f32; 64]);
/// # let shape = [1, 1, 1, 64];
/// # let args = ForwardArgs::new(TensorRef::new(&q, shape)?, TensorRef::new(&k, shape)?, TensorRef::new(&v, shape)?,
/// #                      TensorMut::new(&mut out, shape)?);
/// # let op = Op::builder(DType::F32, 64).build()?;
/// let mut workspace = Workspace::new(op.workspace_size(&args)?)?;
/// op.forward(&mut args.workspace(&mut workspace))?;
/// # Ok::<(), Error>(())
/// ```
pub struct Workspace {
    data: Option<NonNull<u8>>, // none where the size is 0
    layout: Layout,
}

// Plain memory with one owner.
unsafe impl Send for Workspace {}
unsafe impl Sync for Workspace {}

impl Workspace {
    /// Allocates `bytes`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(bytes: usize) -> Result<Workspace> {
        let too_large = || Error::OutOfMemory(format!("no memory for a workspace of {bytes} bytes"));
        let layout = Layout::from_size_align(bytes, 256).map_err(|_| too_large())?;
        let data = match bytes {
            0 => None,
            _ => Some(NonNull::new(unsafe { alloc(layout) }).ok_or_else(too_large)?),
        };
        Ok(Workspace { data, layout })
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.layout.size()
    }

    pub(crate) fn data(&mut self) -> *mut u8 {
        self.data.map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Some(data) = self.data {
            unsafe { dealloc(data.as_ptr(), self.layout) }
        }
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workspace({} bytes)", self.size())
    }
}
