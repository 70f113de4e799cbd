//! Raw bindings to [libfa](https://crates.io/crates/libfa): the declarations of `fa.h`, and nothing else. The crate `libfa` is the safe
//! layer over it. The header is the specification; its comments are the documentation of the items below.
//!
//! The library is found by
//!
//! - `FA_LIB_DIR`, the folder of `libfa.so` or `libfa.a`; else
//! - pkg-config's `fa`; or
//! - the feature `vendored`, which builds it with CMake from the sources in this crate, CPU only unless `FA_CMAKE_ARGS` asks for
//!   more, and links it statically; or
//! - the feature `load-dynamic`, which looks for it when the program runs: see [`load`].
//!
//! The build script of a crate that depends on this one gets the folder of the library in `DEP_FA_LIB_DIR`.
//!
//! The bindings are committed, so neither libclang nor the header is needed; the feature `bindgen` regenerates them (from
//! `FA_INCLUDE_DIR`, else from the header in this crate). The crate is `no_std`.
#![no_std]
#![allow(non_camel_case_types)]
#![allow(clippy::result_large_err)] // an error holds its text: there is no allocator
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)] // C's comments: shape[4], <fa.h>

#[cfg(feature = "load-dynamic")]
mod dynamic;
#[cfg(feature = "load-dynamic")]
pub use dynamic::load;

mod error;
pub use error::LoadError;

/// Declares the functions of the header: for the linker.
#[cfg(not(feature = "load-dynamic"))]
macro_rules! functions {
    ($($(#[$meta:meta])* pub fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        unsafe extern "C" {
            $($(#[$meta])* pub fn $name($($arg: $kind),*) $(-> $result)?;)*
        }
    };
}

/// Declares the functions of the header: as calls through a table of addresses.
#[cfg(feature = "load-dynamic")]
macro_rules! functions {
    ($($(#[$meta:meta])* pub fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// The place of each function in the table of addresses.
        enum Place { $($name),* }

        pub(crate) const NAMES: &[&[u8]] = &[$(concat!(stringify!($name), "\0").as_bytes()),*];

        $(
            $(#[$meta])*
            ///
            /// # Panics
            /// When the library cannot be loaded; [`ensure_loaded`] checks that beforehand.
            ///
            /// # Safety
            /// As the header says.
            #[inline]
            pub unsafe fn $name($($arg: $kind),*) $(-> $result)? {
                let address = dynamic::address(Place::$name as usize);
                let function: unsafe extern "C" fn($($kind),*) $(-> $result)? = unsafe { core::mem::transmute(address) };
                unsafe { function($($arg),*) }
            }
        )*
    };
}

#[cfg(not(feature = "bindgen"))]
include!("bindings.rs");
#[cfg(feature = "bindgen")]
include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

/// Whether the functions may be called: always, unless the feature `load-dynamic` has to look for the library first.
///
/// # Errors
/// Where it has looked and not found it.
pub fn ensure_loaded() -> Result<(), LoadError> {
    #[cfg(feature = "load-dynamic")]
    dynamic::ensure_loaded()?;
    Ok(())
}
