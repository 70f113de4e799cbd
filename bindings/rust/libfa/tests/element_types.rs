//! Every element type in the place of every tensor: the types that fa.h has for the argument work, all else is refused by its name.
use libfa::half::{bf16, f16};
use libfa::DType::{self, Bool, BF16, F16, F32, I32, I64};
use libfa::{BackwardArgs, ForwardArgs, Op, Result, TensorMut, TensorRef};

/// B, S, H and D are 1, 2, 2 and 8: memory for the largest tensor, of any type's zeros.
#[derive(Default)]
struct Zeros {
    f32: [f32; 32],
    f16: [f16; 32],
    bf16: [bf16; 32],
    bool: [bool; 32],
    u8: [u8; 32],
    i32: [i32; 32],
    i64: [i64; 32],
}

/// The types, and u8, of which the library's name is that of bool.
const TYPES: [(&str, DType); 7] =
    [("f32", F32), ("f16", F16), ("bf16", BF16), ("bool", Bool), ("u8", Bool), ("i32", I32), ("i64", I64)];

impl Zeros {
    fn read(&self, name: &str, shape: [usize; 4]) -> TensorRef<'_> {
        let n = shape.iter().product();
        match name {
            "f32" => TensorRef::new(&self.f32[..n], shape),
            "f16" => TensorRef::new(&self.f16[..n], shape),
            "bf16" => TensorRef::new(&self.bf16[..n], shape),
            "bool" => TensorRef::new(&self.bool[..n], shape),
            "u8" => TensorRef::new(&self.u8[..n], shape),
            "i32" => TensorRef::new(&self.i32[..n], shape),
            _ => TensorRef::new(&self.i64[..n], shape),
        }
        .unwrap()
    }

    fn written(&mut self, name: &str, shape: [usize; 4]) -> TensorMut<'_> {
        let n = shape.iter().product();
        match name {
            "f32" => TensorMut::new(&mut self.f32[..n], shape),
            "f16" => TensorMut::new(&mut self.f16[..n], shape),
            "bf16" => TensorMut::new(&mut self.bf16[..n], shape),
            "bool" => TensorMut::new(&mut self.bool[..n], shape),
            "u8" => TensorMut::new(&mut self.u8[..n], shape),
            "i32" => TensorMut::new(&mut self.i32[..n], shape),
            _ => TensorMut::new(&mut self.i64[..n], shape),
        }
        .unwrap()
    }
}

const ROWS: [usize; 4] = [1, 2, 2, 8];
const LSE: [usize; 4] = [1, 2, 2, 1];
const HEADS: [usize; 4] = [1, 2, 1, 1];
const FLOATS: &[DType] = &[F32, F16, BF16];

/// A call for each type of `name`, the others of their usual ones: only the `supported` ones work.
fn swept(name: &str, supported: &[DType], call: impl Fn(&str) -> Result<()>) {
    for (of, dtype) in TYPES {
        match call(of) {
            Ok(()) => assert!(supported.contains(&dtype), "{name} of {of} is accepted"),
            Err(error) => {
                assert!(!supported.contains(&dtype), "{name} of {of}: {error}");
                let text = error.to_string();
                assert!(text.contains(&format!("args.{name}.dtype is ")), "{name} of {of}: {text}");
            }
        }
    }
}

fn op() -> Op {
    Op::builder(F32, 8).build().unwrap()
}

#[test]
fn of_the_forward_pass() {
    let forward = |change: &dyn Fn(ForwardArgs<'_>) -> Result<()>| {
        let (data, mut out) = (Zeros::default(), Zeros::default());
        let view = || data.read("f32", ROWS);
        change(ForwardArgs::new(view(), view(), view(), out.written("f32", ROWS)))
    };
    let run = |args: ForwardArgs<'_>| op().forward(&mut { args });
    for (name, place) in [("q", 0), ("k", 1), ("v", 2)] {
        swept(name, &[F32], |of| {
            let (data, mut out) = (Zeros::default(), Zeros::default());
            let [q, k, v] = [0, 1, 2].map(|at| data.read(if at == place { of } else { "f32" }, ROWS));
            run(ForwardArgs::new(q, k, v, out.written("f32", ROWS)))
        });
    }
    swept("out", &[F32], |of| {
        let (data, mut out) = (Zeros::default(), Zeros::default());
        let view = || data.read("f32", ROWS);
        run(ForwardArgs::new(view(), view(), view(), out.written(of, ROWS)))
    });
    swept("lse", &[F32], |of| forward(&|args| run(args.lse(Zeros::default().written(of, LSE)))));
    swept("bias", FLOATS, |of| forward(&|args| run(args.bias(Zeros::default().read(of, [1, 1, 2, 2])))));
    swept("mask", &[Bool], |of| forward(&|args| run(args.mask(Zeros::default().read(of, [1, 1, 2, 2])))));
    swept("alibi_slopes", &[F32], |of| forward(&|args| run(args.alibi_slopes(Zeros::default().read(of, HEADS)))));
    swept("sinks", &[F32], |of| forward(&|args| run(args.sinks(Zeros::default().read(of, HEADS)))));
    swept("block_table", &[I32], |of| forward(&|args| run(args.block_table(Zeros::default().read(of, [1, 1, 1, 1])))));
}

#[test]
fn of_the_backward_pass() {
    const DATA: [(&str, [usize; 4]); 5] = [("q", ROWS), ("k", ROWS), ("v", ROWS), ("lse", LSE), ("dout", ROWS)];
    let run = |args: BackwardArgs<'_>| op().backward(&mut { args });
    for (place, (name, _)) in DATA.iter().enumerate() {
        // dout may have another type.
        swept(name, if *name == "dout" { FLOATS } else { &[F32] }, |of| {
            let (data, mut dq) = (Zeros::default(), Zeros::default());
            let [q, k, v, lse, dout] =
                [0, 1, 2, 3, 4].map(|at| data.read(if at == place { of } else { "f32" }, DATA[at].1));
            run(BackwardArgs::new(q, k, v, lse, dout).out(data.read("f32", ROWS)).dq(dq.written("f32", ROWS)))
        });
    }
    let backward = |change: &dyn Fn(BackwardArgs<'_>) -> Result<()>| {
        let (data, mut dq) = (Zeros::default(), Zeros::default());
        let [q, k, v, lse, dout] = DATA.map(|(_, shape)| data.read("f32", shape));
        let args = BackwardArgs::new(q, k, v, lse, dout).out(data.read("f32", ROWS));
        change(args.dq(dq.written("f32", ROWS)))
    };
    swept("out", &[F32], |of| backward(&|args| run(args.out(Zeros::default().read(of, ROWS)))));
    swept("dlse", &[F32], |of| backward(&|args| run(args.dlse(Zeros::default().read(of, LSE)))));
    swept("delta", &[F32], |of| backward(&|args| run(args.delta(Zeros::default().read(of, LSE)))));
    swept("bias", FLOATS, |of| backward(&|args| run(args.bias(Zeros::default().read(of, [1, 1, 2, 2])))));
    swept("mask", &[Bool], |of| backward(&|args| run(args.mask(Zeros::default().read(of, [1, 1, 2, 2])))));
    swept("alibi_slopes", &[F32], |of| backward(&|args| run(args.alibi_slopes(Zeros::default().read(of, HEADS)))));
    swept("sinks", &[F32], |of| backward(&|args| run(args.sinks(Zeros::default().read(of, HEADS)))));
    swept("dq", FLOATS, |of| backward(&|args| run(args.dq(Zeros::default().written(of, ROWS)))));
    swept("dk", FLOATS, |of| backward(&|args| run(args.dk(Zeros::default().written(of, ROWS)))));
    swept("dv", FLOATS, |of| backward(&|args| run(args.dv(Zeros::default().written(of, ROWS)))));
    swept("dbias", &[F32], |of| {
        backward(&|args| {
            let (bias, mut dbias) = (Zeros::default(), Zeros::default());
            run(args.bias(bias.read("f32", [1, 1, 2, 2])).dbias(dbias.written(of, [1, 1, 2, 2])))
        })
    });
    swept("dsinks", &[F32], |of| {
        backward(&|args| {
            let (sinks, mut dsinks) = (Zeros::default(), Zeros::default());
            run(args.sinks(sinks.read("f32", HEADS)).dsinks(dsinks.written(of, HEADS)))
        })
    });

    let added = |of| backward(&|args| run(args.add_to_dq(Zeros::default().written(of, ROWS))));
    for (of, dtype) in TYPES {
        let text = added(of).err().map_or(String::new(), |error| error.to_string());
        assert_eq!(text.is_empty(), dtype == F32, "sums of {of}: {text}");
        assert!(dtype == F32 || text.contains("args.dq"), "sums of {of}: {text}");
    }
}
