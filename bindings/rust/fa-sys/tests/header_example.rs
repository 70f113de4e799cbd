//! The program in the introduction of fa.h, through the raw bindings.
use fa_sys::*;
use std::ffi::CStr;
use std::mem::{size_of, zeroed};
use std::ptr::{addr_of_mut, null_mut};

fn last_error() -> String {
    unsafe { CStr::from_ptr(fa_last_error()) }.to_string_lossy().into_owned()
}

#[test]
fn causal_attention_of_4_heads_over_2() {
    ensure_loaded().unwrap();
    let mut q: Vec<f32> = (0..128 * 4 * 64).map(|i| (i % 7) as f32 / 7.0).collect();
    let mut k: Vec<f32> = (0..128 * 2 * 64).map(|i| (i % 11) as f32 / 11.0).collect();
    let mut v: Vec<f32> = (0..128 * 2 * 64).map(|i| (i % 13) as f32 / 13.0).collect();
    let mut out = vec![0f32; 128 * 4 * 64];
    unsafe {
        let mut desc: fa_desc = zeroed();
        fa_desc_init(&mut desc, size_of::<fa_desc>());
        desc.dtype_q = FA_F32;
        desc.head_dim = 64;
        desc.mask = FA_MASK_CAUSAL;

        let mut op = null_mut();
        assert_eq!(fa_create(&desc, &mut op), FA_OK, "{}", last_error());
        let mut args: fa_forward_args = zeroed();
        fa_forward_args_init(&mut args, size_of::<fa_forward_args>());
        fa_tensor_init(addr_of_mut!(args.q), q.as_mut_ptr().cast(), FA_F32, 1, 128, 4, 64);
        fa_tensor_init(addr_of_mut!(args.k), k.as_mut_ptr().cast(), FA_F32, 1, 128, 2, 64);
        fa_tensor_init(addr_of_mut!(args.v), v.as_mut_ptr().cast(), FA_F32, 1, 128, 2, 64);
        fa_tensor_init(addr_of_mut!(args.out), out.as_mut_ptr().cast(), FA_F32, 1, 128, 4, 64);
        assert_eq!(fa_forward(op, &args), FA_OK, "{}", last_error());
        fa_destroy(op);
    }
    assert!(
        (out[5] - v[5]).abs() < 1e-6,
        "the first query sees the first key only: {} is its value's {}",
        out[5],
        v[5]
    );
}

#[test]
fn errors_have_a_text() {
    ensure_loaded().unwrap();
    unsafe {
        let mut desc: fa_desc = zeroed();
        fa_desc_init(&mut desc, size_of::<fa_desc>());
        let mut op = null_mut();
        assert_eq!(fa_create(&desc, &mut op), FA_ERROR_INVALID_ARGUMENT);
        assert!(op.is_null());
        assert!(last_error().contains("desc.head_dim is 0"), "{}", last_error());
        assert_eq!(CStr::from_ptr(fa_status_string(FA_ERROR_INVALID_ARGUMENT)), c"FA_ERROR_INVALID_ARGUMENT");
    }
}
