//! The library and the kernels that it can run here.
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};

use fa_sys::*;

use crate::error::{check, text};
use crate::Result;

/// A kernel of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kernel {
    /// The name for `FA_FORCE_KERNEL`: `cpu.avx2`.
    pub name: &'static str,
    /// `cpu` or `cuda`.
    pub device: &'static str,
    /// The ISA or SM that it is compiled for: `avx2`, `sm_80`.
    pub arch: &'static str,
    /// The types that it computes in at full speed: `f32`, `bf16`.
    pub compute_dtypes: &'static str,
    /// Whether this machine can run it.
    pub available: bool,
    /// The reason where it cannot, else empty.
    pub unavailable_reason: &'static str,
    /// The names of the kernels that compute gradients, best first: `cuda.sm_80.backward`, `cuda.sm_80.backward_simt`.
    pub backward: Vec<&'static str>,
}

/// All kernels of the library, best first.
///
/// ```
/// for kernel in libfa::kernels()? {
///     println!("{:20} {}", kernel.name, if kernel.available { "available" } else { kernel.unavailable_reason });
/// }
/// # Ok::<(), libfa::Error>(())
/// ```
///
/// # Errors
/// [`Error::Load`](crate::Error::Load) where `load-dynamic` finds no library.
pub fn kernels() -> Result<Vec<Kernel>> {
    ensure_loaded()?;
    (0..unsafe { fa_kernel_count() }).map(kernel).collect()
}

fn kernel(index: i32) -> Result<Kernel> {
    let mut info = unsafe { MaybeUninit::<fa_kernel>::zeroed().assume_init() };
    info.struct_size = size_of::<fa_kernel>();
    check(unsafe { fa_kernel_info(index, &raw mut info) })?;
    Ok(Kernel {
        name: text(info.name),
        device: text(info.device),
        arch: text(info.arch),
        compute_dtypes: text(info.compute_dtypes),
        available: info.available != 0,
        unavailable_reason: text(info.unavailable_reason),
        backward: (0..info.num_backward).map(|i| text(unsafe { fa_kernel_backward_name(index, i) })).collect(),
    })
}

/// The version of the library as loaded: major, minor, patch.
///
/// # Errors
/// [`Error::Load`](crate::Error::Load) where `load-dynamic` finds no library.
pub fn version() -> Result<(u32, u32, u32)> {
    ensure_loaded()?;
    let version = unsafe { fa_version() }.unsigned_abs();
    Ok((version / 10000, version / 100 % 100, version % 100))
}

/// One line on how the library was built.
///
/// # Errors
/// [`Error::Load`](crate::Error::Load) where `load-dynamic` finds no library.
pub fn build_info() -> Result<&'static str> {
    ensure_loaded()?;
    Ok(text(unsafe { fa_build_info() }))
}

/// The receiver of the library's messages.
pub type Log = dyn Fn(&str) + Send + Sync;

/// The target of fa_set_log's user.
struct Owned(Box<Log>);

/// All that were ever set: the library may be in the middle of a line to an earlier one.
static LOGS: Mutex<Vec<&'static Owned>> = Mutex::new(Vec::new());

/// Sends the library's messages (`FA_VERBOSE=dispatch`) to `log`, a line at a time, instead of the standard error; `None` restores
/// that. The closure lives as long as the process.
///
/// # Errors
/// [`Error::Load`](crate::Error::Load) where `load-dynamic` finds no library.
///
/// # Safety
/// No other thread uses the library yet.
pub unsafe fn set_log(log: Option<Box<Log>>) -> Result<()> {
    ensure_loaded()?;
    match log {
        Some(log) => {
            let log: &'static Owned = Box::leak(Box::new(Owned(log)));
            LOGS.lock().unwrap_or_else(PoisonError::into_inner).push(log);
            unsafe { fa_set_log(Some(write_line), (&raw const *log).cast_mut().cast()) }
        }
        None => unsafe { fa_set_log(None, std::ptr::null_mut()) },
    }
    Ok(())
}

unsafe extern "C" fn write_line(user: *mut c_void, line: *const c_char) {
    let Owned(log) = unsafe { &*user.cast() };
    // A panic cannot go through the library, and a line that is lost is no reason to end.
    let _ = catch_unwind(AssertUnwindSafe(|| log(text(line))));
}

/// Ends the library's own threads and waits for them; a later call starts new ones. Never needed.
///
/// # Errors
/// [`Error::Load`](crate::Error::Load) where `load-dynamic` finds no library.
///
/// # Safety
/// No [`Op::forward`](crate::Op::forward) is under way.
pub unsafe fn shutdown() -> Result<()> {
    ensure_loaded()?;
    unsafe { fa_shutdown() };
    Ok(())
}
