//! What most callers want: attention of tensors in a new vector.
use crate::{Args, Element, Error, Op, OpBuilder, Result, TensorMut, TensorRef};

/// `softmax(q kᵀ / sqrt(D)) v` for every batch entry and head, of `q` (B, Sq, Hq, D), `k` (B, Sk, Hkv, D) and `v` (B, Sk, Hkv, Dv)
/// in memory of the host: a vector (B, Sq, Hq, Dv) of the type that the caller names. For a mask or any
/// other feature, build an [`Op`], whose [`attention`](Op::attention) is the same function.
///
/// ```
/// # use libfa::{attention, DType, Mask, Op, TensorRef};
/// let (q, k, v) = (vec![0.1f32; 128 * 4 * 64], vec![0.2f32; 128 * 2 * 64], vec![0.3f32; 128 * 2 * 64]);
/// let (q, k) = (TensorRef::new(&q, [1, 128, 4, 64])?, TensorRef::new(&k, [1, 128, 2, 64])?);
/// let v = TensorRef::new(&v, [1, 128, 2, 64])?;
/// let out: Vec<f32> = attention(q, k, v)?;
/// let causal = Op::builder(DType::F32, 64).mask(Mask::Causal).build()?; // once, for any number of calls
/// let out: Vec<f32> = causal.attention(q, k, v)?;
/// # Ok::<(), libfa::Error>(())
/// ```
///
/// # Errors
/// As [`OpBuilder::build`] and [`Op::forward`]; [`Error::OutOfMemory`] where there is no room for the result.
pub fn attention<'a, T: Element>(
    q: impl TryInto<TensorRef<'a>, Error: Into<Error>>,
    k: impl TryInto<TensorRef<'a>, Error: Into<Error>>,
    v: impl TryInto<TensorRef<'a>, Error: Into<Error>>,
) -> Result<Vec<T>> {
    let (q, k, v) = (tensor(q)?, tensor(k)?, tensor(v)?);
    OpBuilder::for_tensors(&q, &k, &v, T::DTYPE).build()?.attention(q, k, v)
}

impl Op {
    /// Computes attention of tensors in memory of the host, as [`attention`], into a new vector (B, Sq, Hq, Dv) of the op's type.
    ///
    /// # Errors
    /// As [`forward`](Op::forward); [`Error::OutOfMemory`] where there is no room for the result.
    pub fn attention<'a, T: Element>(
        &self,
        q: impl TryInto<TensorRef<'a>, Error: Into<Error>>,
        k: impl TryInto<TensorRef<'a>, Error: Into<Error>>,
        v: impl TryInto<TensorRef<'a>, Error: Into<Error>>,
    ) -> Result<Vec<T>> {
        let (q, k, v) = (tensor(q)?, tensor(k)?, tensor(v)?);
        let [batch, rows, heads, _] = q.shape();
        let shape = [batch, rows, heads, v.shape()[3]];
        let mut out = Vec::<T>::new();
        let count = shape
            .iter()
            .try_fold(1usize, |product, size| product.checked_mul(*size))
            .filter(|count| out.try_reserve_exact(*count).is_ok())
            .ok_or_else(|| Error::OutOfMemory(format!("no memory for out, of shape {shape:?}")))?;
        // Its elements are nobody else's, and a call that has none of the arguments which leave rows out writes each of them.
        let memory = unsafe { TensorMut::contiguous(out.as_mut_ptr().cast(), T::DTYPE, shape)? };
        self.forward(&mut Args::new(q, k, v, memory))?;
        unsafe { out.set_len(count) };
        Ok(out)
    }
}

fn tensor<'a>(tensor: impl TryInto<TensorRef<'a>, Error: Into<Error>>) -> Result<TensorRef<'a>> {
    tensor.try_into().map_err(Into::into)
}
