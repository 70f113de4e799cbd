//! Loading the library at run time. One test: a process loads one library once.
#![cfg(feature = "load-dynamic")]

use std::ffi::CString;

use libfa::{sys, DType, Error, Op};

#[test]
fn missing_foreign_and_right_libraries() {
    let library = std::env::var("FA_LIB").expect("FA_LIB is the library to test");
    std::env::set_var("FA_LIB", "/nonexistent/libfa.so.0");
    let Err(Error::Load(text)) = Op::builder(DType::F32, 64).build() else {
        panic!("found in a folder that does not exist")
    };
    assert!(text.contains("/nonexistent/libfa.so.0") && text.contains("set FA_LIB"), "{text}");
    assert!(matches!(libfa::kernels(), Err(Error::Load(_))));
    assert!(matches!(libfa::TensorRef::new(&[0f32; 4], [1, 1, 1, 4]), Err(Error::Load(_))));

    let foreign = sys::load(c"libm.so.6").unwrap_err().to_string();
    assert!(foreign.contains("not libfa") && foreign.contains("fa_"), "{foreign}");
    sys::load(&CString::new(library).unwrap()).unwrap();
    assert!(sys::load(c"libm.so.6").unwrap_err().message().contains("loaded already"));
    Op::builder(DType::F32, 64).build().unwrap();
}
