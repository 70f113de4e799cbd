//! fa_status as an enum that carries the library's explanation.
use std::convert::Infallible;
use std::ffi::CStr;
use std::fmt;

use fa_sys::*;

/// The result of a call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. The text names the argument, its value, the expected values and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The call can never work.
    InvalidArgument(String),
    /// Legal, but nothing in this build of the library or on this machine supports it.
    Unsupported(String),
    /// The requested device is not there.
    NoDevice(String),
    /// Memory of the host or of the device is short; nothing was computed.
    OutOfMemory(String),
    /// The device's driver failed.
    Driver(String),
    /// The library could not be loaded (feature `load-dynamic`).
    Load(String),
    /// A status that this version of the crate does not know.
    Unknown(i32, String),
}

impl Error {
    /// The explanation.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Error::InvalidArgument(text)
            | Error::Unsupported(text)
            | Error::NoDevice(text)
            | Error::OutOfMemory(text)
            | Error::Driver(text)
            | Error::Load(text)
            | Error::Unknown(_, text) => text,
        }
    }

    /// The fa_status. An error of loading the library is FA_ERROR_UNSUPPORTED.
    #[must_use]
    pub fn status(&self) -> i32 {
        match self {
            Error::InvalidArgument(_) => FA_ERROR_INVALID_ARGUMENT,
            Error::Unsupported(_) | Error::Load(_) => FA_ERROR_UNSUPPORTED,
            Error::NoDevice(_) => FA_ERROR_NO_DEVICE,
            Error::OutOfMemory(_) => FA_ERROR_OUT_OF_MEMORY,
            Error::Driver(_) => FA_ERROR_DRIVER,
            Error::Unknown(status, _) => *status,
        }
    }

    /// The name of the status: `FA_ERROR_INVALID_ARGUMENT`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match ensure_loaded() {
            Ok(()) => text(unsafe { fa_status_string(self.status()) }),
            Err(_) => "FA_ERROR_UNSUPPORTED",
        }
    }

    pub(crate) fn invalid(text: String) -> Error {
        Error::InvalidArgument(text)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}

/// Of conversions that cannot fail, as that of a tensor to itself.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Error {
        match never {}
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Error {
        Error::Load(error.to_string())
    }
}

/// The error of the last call of this thread, unless it went well.
pub(crate) fn check(status: fa_status) -> Result<()> {
    if status == FA_OK {
        return Ok(());
    }
    let text = text(unsafe { fa_last_error() }).to_owned();
    Err(match status {
        FA_ERROR_INVALID_ARGUMENT => Error::InvalidArgument(text),
        FA_ERROR_UNSUPPORTED => Error::Unsupported(text),
        FA_ERROR_NO_DEVICE => Error::NoDevice(text),
        FA_ERROR_OUT_OF_MEMORY => Error::OutOfMemory(text),
        FA_ERROR_DRIVER => Error::Driver(text),
        other => Error::Unknown(other, text),
    })
}

/// One of the library's strings, which are ASCII and live as long as it. The text of fa_last_error must be copied at once.
pub(crate) fn text(string: *const std::ffi::c_char) -> &'static str {
    unsafe { CStr::from_ptr(string) }.to_str().unwrap_or("")
}
