//! Shared by the suites: the shared case list as the C tests wrote it (tests/bindings/dump_cases.cpp has its form), and
//! memory for its tensors.
#![allow(dead_code)]

use std::path::PathBuf;

use libfa::half::{bf16, f16};
use libfa::sys::{FA_BF16, FA_BOOL, FA_F16, FA_I32};
use libfa::{DType, Result, TensorMut, TensorRef};

/// Bytes, aligned for every element type.
#[derive(Clone)]
pub struct Memory {
    words: Vec<u64>,
    size: usize,
}

impl Memory {
    pub fn new(bytes: &[u8]) -> Memory {
        let mut memory = Memory { words: vec![0; bytes.len().div_ceil(8)], size: bytes.len() };
        memory.bytes_mut().copy_from_slice(bytes);
        memory
    }

    pub fn bytes(&self) -> &[u8] {
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.size) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.size) }
    }

    fn slice<T>(&self) -> &[T] {
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.size / size_of::<T>()) }
    }

    fn slice_mut<T>(&mut self) -> &mut [T] {
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.size / size_of::<T>()) }
    }
}

/// A tensor of a case.
#[derive(Clone)]
pub struct Tensor {
    pub name: String,
    pub dtype: i32,
    pub shape: [usize; 4],
    pub stride: [isize; 4],
    pub memory: Memory,
    pub first: usize, // bytes
}

impl Tensor {
    fn size(&self) -> usize {
        match self.dtype {
            FA_BOOL => 1,
            FA_F16 | FA_BF16 => 2,
            _ => 4,
        }
    }

    pub fn view(&self) -> Result<TensorRef<'_>> {
        let (memory, first) = (&self.memory, self.first / self.size());
        match self.dtype {
            FA_BOOL => TensorRef::strided(memory.slice::<u8>(), first, self.shape, self.stride),
            FA_F16 => TensorRef::strided(memory.slice::<f16>(), first, self.shape, self.stride),
            FA_BF16 => TensorRef::strided(memory.slice::<bf16>(), first, self.shape, self.stride),
            FA_I32 => TensorRef::strided(memory.slice::<i32>(), first, self.shape, self.stride),
            _ => TensorRef::strided(memory.slice::<f32>(), first, self.shape, self.stride),
        }
    }

    pub fn view_mut(&mut self) -> Result<TensorMut<'_>> {
        let first = self.first / self.size();
        match self.dtype {
            FA_F16 => TensorMut::strided(self.memory.slice_mut::<f16>(), first, self.shape, self.stride),
            FA_BF16 => TensorMut::strided(self.memory.slice_mut::<bf16>(), first, self.shape, self.stride),
            _ => TensorMut::strided(self.memory.slice_mut::<f32>(), first, self.shape, self.stride),
        }
    }

    /// The bytes of each element, in the order of the indices.
    fn places(&self) -> Vec<std::ops::Range<usize>> {
        let size = self.size();
        let mut places = Vec::new();
        for index in 0..self.shape.iter().product() {
            let (mut rest, mut at) = (index, self.first as isize);
            for axis in (0..4).rev() {
                at += (rest % self.shape[axis]) as isize * self.stride[axis] * size as isize;
                rest /= self.shape[axis];
            }
            places.push(at as usize..at as usize + size);
        }
        places
    }

    fn number(&self, place: std::ops::Range<usize>) -> f64 {
        let bytes = &self.memory.bytes()[place];
        match self.dtype {
            FA_F16 => f16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
            FA_BF16 => bf16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
            _ => f64::from(f32::from_ne_bytes(bytes.try_into().unwrap())),
        }
    }

    /// Every element within its bound of the expected one, and every other byte as before.
    pub fn judge(&self, before: &Memory, want: &Want) -> std::result::Result<(), String> {
        let mut bytes = self.memory.bytes().to_vec();
        let places = self.places();
        assert_eq!(places.len(), want.values.len());
        for (index, place) in places.into_iter().enumerate() {
            let (value, bound) = (want.values[index], want.bounds[index]);
            if bound < 0.0 {
                continue; // not to be written: compared below
            }
            let got = self.number(place.clone());
            let good = match value {
                _ if value.is_nan() => got.is_nan(),
                _ if value.is_infinite() => got == value,
                _ => (got - value).abs() <= bound,
            };
            if !good {
                return Err(format!("{}[{index}] is {got}, expected {value} within {bound:e}", self.name));
            }
            bytes[place.clone()].copy_from_slice(&before.bytes()[place]);
        }
        match bytes.iter().zip(before.bytes()).position(|(now, then)| now != then) {
            Some(byte) => Err(format!("byte {byte} of {}, outside the tensor's elements, was written", self.name)),
            None => Ok(()),
        }
    }
}

/// An output as the oracle expects it.
#[derive(Clone, Default)]
pub struct Want {
    pub values: Vec<f64>,
    pub bounds: Vec<f64>,
}

/// A case of the shared list.
#[derive(Clone, Default)]
pub struct Case {
    pub name: String,
    pub text: String,
    pub desc: Vec<(String, f64)>,
    pub args: Vec<(String, f64)>,
    pub tensors: Vec<Tensor>,
    pub arrays: Vec<(String, Vec<i32>)>,
    pub workspace: bool,
    pub refused: Vec<String>,
    pub want: Vec<(String, Want)>,
}

impl Case {
    pub fn desc(&self, field: &str) -> f64 {
        self.desc.iter().find(|(name, _)| name == field).map_or(0.0, |(_, value)| *value)
    }

    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }
}

pub fn dtype(raw: f64) -> DType {
    [DType::F32, DType::F16, DType::BF16, DType::Bool, DType::I32][raw as usize - 1]
}

/// The shared case list, from the folder FA_CASES_DIR.
pub fn cases() -> Vec<Case> {
    let folder =
        std::env::var_os("FA_CASES_DIR").expect("FA_CASES_DIR names the folder of cases.txt: ctest bindings.cases");
    let text = std::fs::read_to_string(PathBuf::from(&folder).join("cases.txt")).unwrap();
    let bytes = std::fs::read(PathBuf::from(&folder).join("cases.bin")).unwrap();
    let doubles = |offset: usize, count: usize| -> Vec<f64> {
        bytes[offset..offset + 8 * count].chunks(8).map(|eight| f64::from_ne_bytes(eight.try_into().unwrap())).collect()
    };
    let mut cases = Vec::new();
    let mut case = Case::default();
    for line in text.lines() {
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split(' ').collect();
        let number = |at: usize| words[at].parse::<usize>().unwrap();
        match key {
            "case" => case = Case { name: format!("{} {}", words[0], words[1]), ..Case::default() },
            "text" => case.text = rest.to_owned(),
            "desc" => case.desc.push((words[0].to_owned(), words[1].parse().unwrap())),
            "args" => case.args.push((words[0].to_owned(), words[1].parse().unwrap())),
            "tensor" => case.tensors.push(Tensor {
                name: words[0].to_owned(),
                dtype: words[1].parse().unwrap(),
                shape: std::array::from_fn(|axis| number(2 + axis)),
                stride: std::array::from_fn(|axis| words[6 + axis].parse().unwrap()),
                memory: Memory::new(&bytes[number(10)..number(10) + number(11)]),
                first: number(12),
            }),
            "array" => {
                let entries = bytes[number(1)..number(1) + 4 * number(2)].chunks(4);
                let entries = entries.map(|four| i32::from_ne_bytes(four.try_into().unwrap())).collect();
                case.arrays.push((words[0].to_owned(), entries));
            }
            "workspace" => case.workspace = true,
            "refused" => case.refused = words.iter().map(|word| word.to_string()).collect(),
            "want" => {
                let (offset, count) = (number(1), number(2));
                let want = Want { values: doubles(offset, count), bounds: doubles(offset + 8 * count, count) };
                case.want.push((words[0].to_owned(), want));
            }
            "end" => cases.push(std::mem::take(&mut case)),
            _ => panic!("cases.txt: {line}"),
        }
    }
    cases
}
