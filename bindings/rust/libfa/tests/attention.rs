//! Attention into a new vector is that of an op into one's own.
use libfa::half::f16;
use libfa::{attention, DType, Error, ForwardArgs, Mask, Op, TensorMut, TensorRef};

const QUERIES: [usize; 4] = [2, 5, 4, 16];
const KEYS: [usize; 4] = [2, 7, 2, 16];

fn numbers(count: usize, seed: f32) -> Vec<f32> {
    (0..count).map(|i| (i as f32 * seed).sin()).collect()
}

#[test]
fn is_that_of_an_op() {
    let (q, k, v) = (numbers(640, 0.1), numbers(448, 0.2), numbers(448, 0.3));
    let (q, k) = (TensorRef::new(&q, QUERIES).unwrap(), TensorRef::new(&k, KEYS).unwrap());
    let v = TensorRef::strided(&v, 8, [2, 7, 2, 8], [224, 32, 16, 1]).unwrap(); // half of each head: Dv = 8
    let mut expected = vec![0f32; 320];
    for mask in [Mask::None, Mask::Causal] {
        let op = Op::builder(DType::F32, 16).head_dim_v(8).mask(mask).build().unwrap();
        let out = TensorMut::new(&mut expected, [2, 5, 4, 8]).unwrap();
        op.forward(&mut ForwardArgs::new(q, k, v, out)).unwrap();
        assert_eq!(op.attention::<f32>(q, k, v).unwrap(), expected);
        let plain: Vec<f32> = attention(q, k, v).unwrap();
        assert_eq!(plain == expected, mask == Mask::None);
    }
}

#[test]
fn takes_the_types_of_its_tensors_and_gives_the_one_asked_for() {
    let half = |numbers: Vec<f32>| numbers.into_iter().map(f16::from_f32).collect::<Vec<_>>();
    let (q, k, v) = (numbers(640, 0.1), half(numbers(448, 0.2)), half(numbers(448, 0.3)));
    let (q, k, v) =
        (TensorRef::new(&q, QUERIES).unwrap(), TensorRef::new(&k, KEYS).unwrap(), TensorRef::new(&v, KEYS).unwrap());
    let wide: Vec<f32> = attention(q, k, v).unwrap();
    let narrow: Vec<f16> = attention(q, k, v).unwrap();
    assert!(wide.len() == 640 && narrow.iter().zip(&wide).all(|(n, w)| *n == f16::from_f32(*w)));
}

#[test]
fn refuses_by_name() {
    let data = numbers(640, 0.1);
    let q = TensorRef::new(&data, QUERIES).unwrap();
    let text = |result: Result<Vec<f32>, Error>| result.unwrap_err().to_string();
    assert!(text(attention(q, TensorRef::new(&data, [2, 5, 8, 8]).unwrap(), q)).contains("args.k.shape[3]"));
    let op = Op::builder(DType::F32, 16).dtype_out(DType::F16).build().unwrap();
    assert!(text(op.attention(q, q, q)).contains("args.out.dtype is 1 (FA_F32); expected FA_F16"));
    let ints = [0i32; 640];
    assert!(text(attention(TensorRef::new(&ints, QUERIES).unwrap(), q, q)).contains("desc.dtype_q"));
    let empty = TensorRef::new(&data[..0], [0, 5, 4, 16]).unwrap();
    assert!(attention::<f32>(empty, empty, empty).unwrap().is_empty());
    // More elements than there is memory for, all one.
    let many = TensorRef::strided(&data, 0, [1 << 20, 1 << 20, 1 << 7, 16], [0, 0, 0, 1]).unwrap();
    assert!(matches!(attention::<f32>(many, many, many), Err(Error::OutOfMemory(_))));
}

#[cfg(feature = "ndarray")]
#[test]
fn takes_arrays() {
    let array =
        ndarray::Array4::<f32>::from_shape_fn(QUERIES, |(b, s, h, d)| ((b + s * 3 + h * 5 + d * 7) as f32).sin());
    let out: Vec<f32> = attention(&array, &array, TensorRef::try_from(&array).unwrap()).unwrap();
    let tensor = TensorRef::try_from(&array).unwrap();
    assert_eq!(out, attention::<f32>(tensor, tensor, tensor).unwrap());
}
