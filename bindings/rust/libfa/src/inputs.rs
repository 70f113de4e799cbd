//! The common part of the calls: setters of their tensors and arrays, and the properties of them that the library cannot see.
use std::ffi::c_void;

use fa_sys::*;

use crate::fields::LENGTHS;
use crate::{Error, Result};

/// Whether arrays have the lengths that the library will read, whose memory tensors are in, and whose stream they are of.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub offsets: [Option<(&'static str, usize)>; 2], // of the arrays with one entry more than sequences, their entries
    pub lengths: [Option<(&'static str, usize)>; LENGTHS], // of the arrays with one entry for each sequence
    host: Option<&'static str>,                      // an argument in memory of the host
    device: Option<&'static str>,                    // one in a device's
    stream: Option<*mut c_void>,                     // of tensors that have one
    astray: Option<&'static str>,                    // one of another stream than those before
}

impl Seen {
    pub fn memory(&mut self, name: &'static str, on_device: bool) {
        let place = if on_device { &mut self.device } else { &mut self.host };
        place.get_or_insert(name);
    }

    /// A tensor of a stream puts the call there, on the stream that is returned.
    pub fn tensor(
        &mut self,
        name: &'static str,
        on_device: bool,
        stream: Option<*mut c_void>,
        before: *mut c_void,
    ) -> *mut c_void {
        self.memory(name, on_device);
        let Some(stream) = stream else { return before };
        if *self.stream.get_or_insert(stream) != stream {
            self.astray.get_or_insert(name);
        }
        stream
    }

    /// For an op of this device, and a call of this many sequences where it is not packed.
    pub fn check(&self, device: fa_device, batch: i64) -> Result<()> {
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
        self.check_lengths(batch)
    }

    fn check_lengths(&self, batch: i64) -> Result<()> {
        for (name, entries) in self.offsets.into_iter().flatten() {
            if entries == 0 {
                return Err(Error::invalid(format!("args.{name} has no entries; expected B + 1, for B sequences")));
            }
        }
        if let [Some((first, of_first)), Some((name, entries))] = self.offsets {
            if entries != of_first {
                return Err(Error::invalid(format!(
                    "args.{name} has {entries} entries, but {first} has {of_first}; expected as many: one more than sequences"
                )));
            }
        }
        let packed = self.offsets[0].or(self.offsets[1]);
        let sequences = packed.map_or(batch, |(_, entries)| entries as i64 - 1);
        for (name, entries) in self.lengths.into_iter().flatten() {
            if entries as i64 != sequences {
                return Err(Error::invalid(format!(
                    "args.{name} has {entries} entries; expected {sequences}, one for each sequence"
                )));
            }
        }
        Ok(())
    }
}

/// Methods that set tensors, of a structure with `raw` and `seen`.
macro_rules! tensors {
    ($($(#[$meta:meta])* $scope:vis $name:ident: $kind:ident;)*) => {
        $($(#[$meta])* $scope fn $name(mut self, $name: $kind<'a>) -> Self {
            self.raw.stream = self.seen.tensor(stringify!($name), $name.on_device, $name.stream, self.raw.stream);
            self.raw.$name = $name.raw;
            self
        })*
    };
}

/// Methods that set the arrays with one entry for each sequence.
macro_rules! arrays {
    ($($(#[$meta:meta])* $place:literal $name:ident;)*) => {
        $($(#[$meta])* pub fn $name(mut self, $name: impl Into<Array<'a>>) -> Self {
            let array = $name.into();
            self.seen.memory(stringify!($name), array.on_device);
            self.seen.lengths[$place] = Some((stringify!($name), array.length));
            self.raw.$name = array.data;
            self
        })*
    };
}

/// Methods that set the arrays of offsets, which say how many sequences there are.
macro_rules! offsets {
    ($($(#[$meta:meta])* $place:literal $name:ident;)*) => {
        $($(#[$meta])* pub fn $name(mut self, $name: impl Into<Array<'a>>) -> Self {
            let array = $name.into();
            self.seen.memory(stringify!($name), array.on_device);
            self.seen.offsets[$place] = Some((stringify!($name), array.length));
            self.raw.$name = array.data;
            self.raw.num_seqs = array.length.max(1) as i64 - 1;
            self
        })*
    };
}

/// The workspace and the stream of a structure with `raw` and `seen`. `$size` is the function that sizes the workspace.
macro_rules! resources {
    ($raw:ident, $size:literal) => {
        #[doc = concat!("Memory for the call, of [`Op::", $size, "`](crate::Op::", $size, ") bytes: with it the call allocates nothing.")]
        pub fn workspace(mut self, workspace: &'a mut Workspace) -> Self {
            self.raw.workspace = workspace.data().cast();
            self.raw.workspace_size = workspace.size();
            self
        }

        /// Memory of a device for the call.
        ///
        /// # Safety
        /// `data` has `bytes` bytes in memory that the op's device can reach, used by nothing else until the work of the call
        /// has ended on its stream.
        pub unsafe fn workspace_on_device(mut self, data: *mut c_void, bytes: usize) -> Self {
            self.seen.memory("workspace", true);
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
        pub fn raw(&self) -> &$raw {
            &self.raw
        }
    };
}

/// The optional inputs that forward and backward share, and their resources.
macro_rules! inputs {
    ($raw:ident, $size:literal) => {
        optional_inputs!();

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

        resources!($raw, $size);

        pub(crate) fn check(&self, device: fa_device) -> Result<()> {
            self.seen.check(device, self.raw.q.shape[0])
        }
    };
}

pub(crate) use {arrays, inputs, offsets, resources, tensors};
