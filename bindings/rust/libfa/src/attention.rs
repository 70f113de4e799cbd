//! The common case: attention of tensors in a new vector, and its gradients in others.
use crate::{BackwardArgs, Element, Error, ForwardArgs, Op, OpBuilder, Result, TensorMut, TensorRef};

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
        let mut out = Room::new("out", shape_of_out(&q, &v))?;
        self.forward(&mut ForwardArgs::new(q, k, v, out.tensor()?))?;
        Ok(out.written())
    }

    /// As [`attention`](Op::attention), with the logarithms of each query's sum, (B, Hq, Sq, 1): for the backward pass.
    ///
    /// # Errors
    /// As [`attention`](Op::attention).
    pub fn attention_with_lse<'a, T: Element>(
        &self,
        q: impl TryInto<TensorRef<'a>, Error: Into<Error>>,
        k: impl TryInto<TensorRef<'a>, Error: Into<Error>>,
        v: impl TryInto<TensorRef<'a>, Error: Into<Error>>,
    ) -> Result<(Vec<T>, Vec<f32>)> {
        let (q, k, v) = (tensor(q)?, tensor(k)?, tensor(v)?);
        let [batch, rows, heads, _] = q.shape();
        let (mut out, mut lse) = (Room::new("out", shape_of_out(&q, &v))?, Room::new("lse", [batch, heads, rows, 1])?);
        self.forward(&mut ForwardArgs::new(q, k, v, out.tensor()?).lse(lse.tensor()?))?;
        Ok((out.written(), lse.written()))
    }

    /// The gradients of [`attention_with_lse`](Op::attention_with_lse) from `dout`, that of its first result, in new vectors
    /// `[dq, dk, dv]`, each of the shape of its input. For other gradients, or into the caller's memory:
    /// [`backward`](Op::backward).
    ///
    /// ```
    /// # use libfa::{DType, Mask, Op, TensorRef};
    /// let (q, kv, shape) = (vec![0.1f32; 128 * 4 * 64], vec![0.2f32; 128 * 2 * 64], [1, 128, 4, 64]);
    /// let (q, kv) = (TensorRef::new(&q, shape)?, TensorRef::new(&kv, [1, 128, 2, 64])?);
    /// let op = Op::builder(DType::F32, 64).mask(Mask::Causal).build()?;
    /// let (out, lse) = op.attention_with_lse::<f32>(q, kv, kv)?;
    /// let dout = vec![1f32; out.len()];
    /// let (out, lse, dout) = (TensorRef::new(&out, shape)?, TensorRef::new(&lse, [1, 4, 128, 1])?, TensorRef::new(&dout, shape)?);
    /// let [dq, dk, dv] = op.gradients::<f32>(q, kv, kv, out, lse, dout)?;
    /// # Ok::<(), libfa::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`backward`](Op::backward); [`Error::OutOfMemory`] where there is no room for the gradients.
    pub fn gradients<T: Element>(
        &self,
        q: TensorRef<'_>,
        k: TensorRef<'_>,
        v: TensorRef<'_>,
        out: TensorRef<'_>,
        lse: TensorRef<'_>,
        dout: TensorRef<'_>,
    ) -> Result<[Vec<T>; 3]> {
        let [mut dq, mut dk, mut dv] =
            [Room::new("dq", q.shape())?, Room::new("dk", k.shape())?, Room::new("dv", v.shape())?];
        let args = BackwardArgs::new(q, k, v, lse, dout).out(out);
        self.backward(&mut args.dq(dq.tensor()?).dk(dk.tensor()?).dv(dv.tensor()?))?;
        Ok([dq, dk, dv].map(Room::written))
    }
}

fn shape_of_out(q: &TensorRef<'_>, v: &TensorRef<'_>) -> [usize; 4] {
    let [batch, rows, heads, _] = q.shape();
    [batch, rows, heads, v.shape()[3]]
}

/// Room for a result of calls without the arguments by which rows are left out: they write each element.
struct Room<T> {
    memory: Vec<T>,
    shape: [usize; 4],
}

impl<T: Element> Room<T> {
    fn new(name: &str, shape: [usize; 4]) -> Result<Self> {
        let mut memory = Vec::new();
        shape
            .iter()
            .try_fold(1usize, |product, size| product.checked_mul(*size))
            .filter(|count| memory.try_reserve_exact(*count).is_ok())
            .ok_or_else(|| Error::OutOfMemory(format!("no memory for {name}, of shape {shape:?}")))?;
        Ok(Room { memory, shape })
    }

    fn tensor(&mut self) -> Result<TensorMut<'_>> {
        // Its elements are nobody else's while it is borrowed.
        unsafe { TensorMut::contiguous(self.memory.as_mut_ptr().cast(), T::DTYPE, self.shape) }
    }

    /// After a call that wrote them.
    fn written(mut self) -> Vec<T> {
        unsafe { self.memory.set_len(self.shape.iter().product()) };
        self.memory
    }
}

fn tensor<'a>(tensor: impl TryInto<TensorRef<'a>, Error: Into<Error>>) -> Result<TensorRef<'a>> {
    tensor.try_into().map_err(Into::into)
}
