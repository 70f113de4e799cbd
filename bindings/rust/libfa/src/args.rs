//! fa_args: the tensors and arrays of one call, borrowed for as long as it is used.
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use fa_sys::*;

use crate::{Array, Error, Result, TensorMut, TensorRef, Workspace};

/// What one call works on. B is the number of sequences, Sq and Sk are rows of q and of k, Hq and Hkv heads.
#[derive(Debug)]
#[must_use = "Op::forward computes it"]
pub struct Args<'a> {
    raw: fa_args,
    offsets_q: Option<usize>, // entries of cu_seqlens_q
    offsets_k: Option<usize>,
    lengths: [(&'static str, Option<usize>); 5], // of the arrays with one entry for each sequence
    host: Option<&'static str>,                  // an argument in memory of the host
    device: Option<&'static str>,                // one in a device's
    stream: Option<*mut c_void>,                 // of tensors that have one
    astray: Option<&'static str>,                // one of another stream than those before
    borrow: PhantomData<&'a mut [u8]>,
}

// Borrows of Send and Sync memory; the stream is a handle that any thread may use.
unsafe impl Send for Args<'_> {}
unsafe impl Sync for Args<'_> {}

macro_rules! tensors {
    ($($(#[$meta:meta])* $name:ident: $kind:ident;)*) => {
        $($(#[$meta])* pub fn $name(mut self, $name: $kind<'a>) -> Self {
            self.seen(stringify!($name), $name.on_device);
            self.on_stream(stringify!($name), $name.stream);
            self.raw.$name = $name.raw;
            self
        })*
    };
}

macro_rules! arrays {
    ($($(#[$meta:meta])* $place:literal $name:ident;)*) => {
        $($(#[$meta])* pub fn $name(mut self, $name: impl Into<Array<'a>>) -> Self {
            let array = $name.into();
            self.seen(stringify!($name), array.on_device);
            self.lengths[$place] = (stringify!($name), Some(array.length));
            self.raw.$name = array.data;
            self
        })*
    };
}

impl<'a> Args<'a> {
    /// The tensors that every call has: `q` (B, Sq, Hq, D), `k` (B, Sk, Hkv, D), `v` (B, Sk, Hkv, Dv), `out` (B, Sq, Hq, Dv).
    /// Packed by `cu_seqlens_*`: (1, total, H, D). Paged by `block_table`: k and v are (pages, page_size, Hkv, D).
    #[allow(clippy::needless_pass_by_value)] // out is one call's alone
    pub fn new(q: TensorRef<'a>, k: TensorRef<'a>, v: TensorRef<'a>, out: TensorMut<'a>) -> Self {
        let mut raw = MaybeUninit::<fa_args>::zeroed();
        let raw = unsafe {
            fa_args_init(raw.as_mut_ptr(), size_of::<fa_args>());
            raw.assume_init()
        };
        let mut args = Args {
            raw: fa_args { q: q.raw, k: k.raw, v: v.raw, out: out.raw, ..raw },
            offsets_q: None,
            offsets_k: None,
            lengths: [("", None); 5],
            host: None,
            device: None,
            stream: None,
            astray: None,
            borrow: PhantomData,
        };
        for (name, on_device) in [("q", q.on_device), ("k", k.on_device), ("v", v.on_device), ("out", out.on_device)] {
            args.seen(name, on_device);
        }
        for (name, stream) in [("q", q.stream), ("k", k.stream), ("v", v.stream), ("out", out.stream)] {
            args.on_stream(name, stream);
        }
        args
    }

    tensors! {
        /// Written: the logarithm of each query's sum, the sink included; (B, Hq, Sq, 1), packed (1, Hq, total_q, 1); f32.
        lse: TensorMut;
        /// Added to the scores; (B, Hq, Sq, Sk), each dimension may be 1 (repeated); f32, f16 or bf16.
        bias: TensorRef;
        /// True where a query attends a key; shape as `bias`; bool or u8.
        mask: TensorRef;
        /// (B or 1, Hq, 1, 1); f32.
        alibi_slopes: TensorRef;
        /// A logit for each head in the softmax's denominator; (B or 1, Hq, 1, 1); f32.
        sinks: TensorRef;
        /// The pages of each sequence; (B, pages, 1, 1); i32.
        block_table: TensorRef;
    }

    arrays! {
        /// Rows of each sequence of q that are used; B entries.
        0 seqused_q;
        /// Keys of each sequence that are used, those of `leftpad_k` included; B entries.
        1 seqused_k;
        /// Keys at the front of each sequence that are no part of it; B entries.
        2 leftpad_k;
        /// The row of k and v that serves each sequence; B entries.
        3 kv_batch_idx;
        /// The position of query 0 of each sequence relative to its key 0; B entries.
        4 q_offset;
    }

    /// Sequences packed one behind another: that of number b is rows `cu_seqlens_q[b]` to `cu_seqlens_q[b + 1]` of q; B + 1
    /// entries, which set num_seqs.
    pub fn cu_seqlens_q(mut self, cu_seqlens_q: impl Into<Array<'a>>) -> Self {
        let array = cu_seqlens_q.into();
        self.seen("cu_seqlens_q", array.on_device);
        self.offsets_q = Some(array.length);
        self.raw.cu_seqlens_q = array.data;
        self.raw.num_seqs = array.length.max(1) as i64 - 1;
        self
    }

    /// The same for k and v.
    pub fn cu_seqlens_k(mut self, cu_seqlens_k: impl Into<Array<'a>>) -> Self {
        let array = cu_seqlens_k.into();
        self.seen("cu_seqlens_k", array.on_device);
        self.offsets_k = Some(array.length);
        self.raw.cu_seqlens_k = array.data;
        self.raw.num_seqs = array.length.max(1) as i64 - 1;
        self
    }

    /// No sequence has more queries; 0: unknown.
    pub fn max_seqlen_q(mut self, queries: usize) -> Self {
        self.raw.max_seqlen_q = i64::try_from(queries).unwrap_or(i64::MAX);
        self
    }

    /// No sequence has more keys; 0: unknown.
    pub fn max_seqlen_k(mut self, keys: usize) -> Self {
        self.raw.max_seqlen_k = i64::try_from(keys).unwrap_or(i64::MAX);
        self
    }

    /// The keys of each sequence are worked on in this many parts; 0: chosen.
    pub fn num_splits(mut self, parts: usize) -> Self {
        self.raw.num_splits = i32::try_from(parts).unwrap_or(i32::MAX);
        self
    }

    /// Memory for the call, of [`Op::workspace_size`](crate::Op::workspace_size) bytes: with it the call allocates nothing.
    pub fn workspace(mut self, workspace: &'a mut Workspace) -> Self {
        self.raw.workspace = workspace.data().cast();
        self.raw.workspace_size = workspace.size();
        self
    }

    /// Memory of a device for the call.
    ///
    /// # Safety
    /// `data` has `bytes` bytes in memory that the op's device can reach, used by nothing else until the work of the call has
    /// ended on its stream.
    pub unsafe fn workspace_on_device(mut self, data: *mut c_void, bytes: usize) -> Self {
        self.seen("workspace", true);
        self.raw.workspace = data;
        self.raw.workspace_size = bytes;
        self
    }

    /// The CUDA stream (CUstream, cudaStream_t); ignored on the CPU.
    ///
    /// # Safety
    /// It is a stream of the op's device.
    pub unsafe fn stream(mut self, stream: *mut c_void) -> Self {
        self.raw.stream = stream;
        self
    }

    /// The structure as the library gets it.
    #[must_use]
    pub fn raw(&self) -> &fa_args {
        &self.raw
    }

    fn seen(&mut self, name: &'static str, on_device: bool) {
        let place = if on_device { &mut self.device } else { &mut self.host };
        place.get_or_insert(name);
    }

    /// A tensor of a stream puts the call there.
    fn on_stream(&mut self, name: &'static str, stream: Option<*mut c_void>) {
        let Some(stream) = stream else { return };
        if *self.stream.get_or_insert(stream) != stream {
            self.astray.get_or_insert(name);
        }
        self.raw.stream = stream;
    }

    /// What the library cannot see: whether arrays have the lengths that it will read, and whose memory tensors are in.
    pub(crate) fn check(&self, device: fa_device) -> Result<()> {
        if let (Some(host), Some(device)) = (self.host, self.device) {
            return Err(Error::invalid(format!(
                "mixed devices: args.{host} is in memory of the host, args.{device} in a device's; expected all in one"
            )));
        }
        if let Some(name) = self.astray {
            return Err(Error::invalid(format!(
                "args.{name} is of another stream than the tensors before it; expected all of one, which the call is put on"
            )));
        }
        let wrong = match device {
            FA_DEVICE_CPU => self.device.map(|name| (name, "a device's memory", "the CPU")),
            FA_DEVICE_CUDA => self.host.map(|name| (name, "memory of the host", "CUDA")),
            _ => None, // the library chooses by where they are
        };
        if let Some((name, place, device)) = wrong {
            return Err(Error::invalid(format!(
                "args.{name} is in {place}, but the op's device is {device}; expected memory that it can reach"
            )));
        }
        self.check_lengths()
    }

    fn check_lengths(&self) -> Result<()> {
        for (name, entries) in [("cu_seqlens_q", self.offsets_q), ("cu_seqlens_k", self.offsets_k)] {
            if entries == Some(0) {
                return Err(Error::invalid(format!("args.{name} has no entries; expected B + 1, for B sequences")));
            }
        }
        if let (Some(q), Some(k)) = (self.offsets_q, self.offsets_k) {
            if q != k {
                return Err(Error::invalid(format!(
                    "args.cu_seqlens_k has {k} entries, but cu_seqlens_q has {q}; expected as many: one more than sequences"
                )));
            }
        }
        let packed = self.offsets_q.or(self.offsets_k);
        let sequences = packed.map_or(self.raw.q.shape[0], |entries| entries as i64 - 1);
        for (name, length) in self.lengths {
            if length.is_some_and(|entries| entries as i64 != sequences) {
                return Err(Error::invalid(format!(
                    "args.{name} has {} entries; expected {sequences}, one for each sequence",
                    length.unwrap_or(0)
                )));
            }
        }
        Ok(())
    }
}
