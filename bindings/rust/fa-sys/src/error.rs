//! Why the library could not be loaded, in a fixed array: there is no allocator to ask.
use core::ffi::CStr;
use core::fmt;

/// The library could not be loaded (feature `load-dynamic`).
#[derive(Clone, Copy)]
pub struct LoadError {
    text: [u8; 400],
    length: usize,
}

impl LoadError {
    #[cfg_attr(not(feature = "load-dynamic"), allow(dead_code))]
    pub(crate) fn new(parts: &[&CStr]) -> LoadError {
        let mut error = LoadError { text: [0; 400], length: 0 };
        for byte in parts.iter().flat_map(|part| part.to_bytes()) {
            if error.length < error.text.len() {
                error.text[error.length] = if byte.is_ascii() { *byte } else { b'?' };
                error.length += 1;
            }
        }
        error
    }

    /// The files that were looked for, and a remedy.
    #[must_use]
    pub fn message(&self) -> &str {
        core::str::from_utf8(&self.text[..self.length]).unwrap_or("")
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl fmt::Debug for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoadError({:?})", self.message())
    }
}

impl core::error::Error for LoadError {}
