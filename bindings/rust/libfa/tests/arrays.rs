//! ndarray's arrays as tensors: in place, in any strides.
#![cfg(feature = "ndarray")]

use libfa::{DType, ForwardArgs, Op, TensorMut, TensorRef};
use ndarray::{s, Array4};

#[test]
fn layouts_give_the_same_and_nothing_is_copied() {
    let numbers = |step: f32| {
        Array4::from_shape_fn((2, 30, 4, 16), |(b, s, h, d)| ((b + s * 3 + h * 5 + d * 7) as f32 * step).sin())
    };
    let (q, k, v) = (numbers(0.1), numbers(0.2), numbers(0.3));
    let op = Op::builder(DType::F32, 16).build().unwrap();
    let mut expected = Array4::<f32>::zeros(q.dim());
    let tensor = |array| TensorRef::try_from(array).unwrap();
    op.forward(&mut ForwardArgs::new(tensor(&q), tensor(&k), tensor(&v), TensorMut::try_from(&mut expected).unwrap()))
        .unwrap();

    // The same elements as (batch, heads, sequence, dim), seen through permuted axes; the sequence back to front.
    let turned = |array: &Array4<f32>| array.view().permuted_axes([0, 2, 1, 3]).as_standard_layout().into_owned();
    let (q, k, v) = (turned(&q), turned(&k.slice(s![.., ..;-1, .., ..]).to_owned()), turned(&v));
    let (q, k, v) = (q.permuted_axes([0, 2, 1, 3]), k.permuted_axes([0, 2, 1, 3]), v.permuted_axes([0, 2, 1, 3]));
    let k = k.slice(s![.., ..;-1, .., ..]);
    assert!(k.strides()[1] < 0);
    let mut wide = Array4::<f32>::from_elem((2, 30, 4, 48), 9.0);
    let mut out = wide.slice_mut(s![.., .., .., 16..32]);
    let args = ForwardArgs::new(
        tensor(&q),
        TensorRef::try_from(&k).unwrap(),
        tensor(&v),
        TensorMut::try_from(&mut out).unwrap(),
    );
    assert_eq!(args.raw().k.data.cast_const(), k.as_ptr().cast());
    let mut args = args;
    op.forward(&mut args).unwrap();
    assert_eq!(wide.slice(s![.., .., .., 16..32]), expected);
    assert!(wide.slice(s![.., .., .., ..16]).iter().chain(wide.slice(s![.., .., .., 32..]).iter()).all(|x| *x == 9.0));
}
