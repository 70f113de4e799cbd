//! The library found when the program runs: dlopen, and a table of the addresses of its functions.
use core::ffi::{c_char, c_int, c_void, CStr};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::{LoadError, NAMES};

/// The soname, FA_ABI_VERSION included: never the `libfa.so.1` of Augeas.
const SONAME: &CStr = c"libfa.so.0";
const _: () = assert!(SONAME.to_bytes()[9] - b'0' == crate::FA_ABI_VERSION as u8);

const RTLD_NOW: c_int = 2;

#[link(name = "dl")]
unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(library: *mut c_void) -> c_int;
    fn dlerror() -> *const c_char;
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static ADDRESSES: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(null_mut()) }; NAMES.len()];

fn last_error() -> &'static CStr {
    let text = unsafe { dlerror() };
    if text.is_null() {
        c"no reason given"
    } else {
        unsafe { CStr::from_ptr(text) }
    }
}

/// Loads the library at `path`, a file or a name for the dynamic linker to look for. Without it, the first call loads the one that
/// the environment variable `FA_LIB` names, else `libfa.so.0`. Once one is loaded it stays: a second call is an error.
pub fn load(path: &CStr) -> Result<(), LoadError> {
    if !LIBRARY.load(Ordering::Acquire).is_null() {
        return Err(LoadError::new(&[c"libfa is loaded already: call load before anything else of it"]));
    }
    open(path)
}

fn open(path: &CStr) -> Result<(), LoadError> {
    let library = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
    if library.is_null() {
        return Err(LoadError::new(&[
            c"libfa cannot be loaded: ",
            last_error(),
            c"; set FA_LIB to the path of libfa.so.0, or install it where the dynamic linker looks",
        ]));
    }
    // All of them, or none.
    let mut found = [null_mut(); NAMES.len()];
    for (name, address) in NAMES.iter().zip(&mut found) {
        *address = unsafe { dlsym(library, name.as_ptr().cast()) };
        if address.is_null() {
            let error = LoadError::new(&[c"not libfa, or an older one: ", last_error()]);
            unsafe { dlclose(library) };
            return Err(error);
        }
    }
    for (slot, address) in ADDRESSES.iter().zip(found) {
        slot.store(address, Ordering::Release);
    }
    LIBRARY.store(library, Ordering::Release);
    Ok(())
}

pub fn ensure_loaded() -> Result<(), LoadError> {
    if !LIBRARY.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let chosen = unsafe { secure_getenv(c"FA_LIB".as_ptr()) };
    open(if chosen.is_null() { SONAME } else { unsafe { CStr::from_ptr(chosen) } })
}

/// The address of the function at a place of the table.
pub fn address(place: usize) -> *mut c_void {
    let address = ADDRESSES[place].load(Ordering::Acquire);
    if !address.is_null() {
        return address;
    }
    if let Err(error) = ensure_loaded() {
        panic!("{error}");
    }
    ADDRESSES[place].load(Ordering::Acquire)
}
