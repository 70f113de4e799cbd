//! The library's words about itself, and its log. One test: the log is to be set before other threads use the library.
use std::sync::{Arc, Mutex};

use libfa::{DType, Op};

#[test]
fn versions_kernels_and_messages() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    std::env::set_var("FA_VERBOSE", "dispatch");
    unsafe { libfa::set_log(Some(Box::new(move |line| sink.lock().unwrap().push(line.to_owned())))) }.unwrap();
    let op = Op::builder(DType::F32, 64).build().unwrap();
    unsafe { libfa::set_log(Some(Box::new(|_| panic!("of a log")))) }.unwrap();
    Op::builder(DType::F32, 64).build().unwrap(); // survives it
    unsafe { libfa::set_log(None) }.unwrap();
    let lines = lines.lock().unwrap();
    assert!(lines.iter().any(|line| line.contains(op.kernel())), "{lines:?}");

    let (major, minor, patch) = libfa::version().unwrap();
    assert_eq!(format!("{major}.{minor}.{patch}"), env!("CARGO_PKG_VERSION"));
    assert!(libfa::build_info().unwrap().contains(env!("CARGO_PKG_VERSION")));
    let kernels = libfa::kernels().unwrap();
    assert!(kernels.iter().any(|kernel| kernel.name == op.kernel() && kernel.available));
    assert!(kernels.iter().all(|kernel| kernel.available == kernel.unavailable_reason.is_empty()), "{kernels:?}");
    assert!(format!("{op:?}").contains(op.kernel()));
    unsafe { libfa::shutdown() }.unwrap();
}
