// Causal attention of 4 query heads over 2 key/value heads, and its gradients, in JavaScript by koffi and the numbers of
// `schema/generate.py layout`. Reads q, k, v and dout from files of the current folder and writes out, lse, dq, dk and dv.
//
//   npm install koffi; node client.js libfa.so.0
const fs = require("node:fs");
const koffi = require("koffi");

const library = koffi.load(process.argv[2]);
const fa = {
  descInit: library.func("void fa_desc_init(void *desc, size_t struct_size)"),
  argsInit: library.func("void fa_forward_args_init(void *args, size_t struct_size)"),
  backwardArgsInit: library.func("void fa_backward_args_init(void *args, size_t struct_size)"),
  tensorInit: library.func(
    "void fa_tensor_init(void *tensor, void *data, int32_t dtype, int64_t d0, int64_t d1, int64_t d2, int64_t d3)",
  ),
  create: library.func("int32_t fa_create(void *desc, _Out_ void **op)"),
  forward: library.func("int32_t fa_forward(void *op, void *args)"),
  backward: library.func("int32_t fa_backward(void *op, void *args)"),
  destroy: library.func("void fa_destroy(void *op)"),
  lastError: library.func("const char *fa_last_error()"),
};
const [FA_OK, FA_F32, FA_MASK_CAUSAL] = [0, 1, 1];

const [batch, queries, keys, heads, kvHeads, dim] = [2, 5, 9, 4, 2, 16];
const qShape = [batch, queries, heads, dim];
const kShape = [batch, keys, kvHeads, dim];
const lseShape = [batch, heads, queries, 1];

function check(status) {
  if (status !== FA_OK) throw new Error(fa.lastError());
}

// An array and its shape. The engine does not move the memory of a Float32Array that was passed to C, and keeps it as long as
// the array is in use: here to the end of the program.
function tensor(shape) {
  return { shape, data: new Float32Array(shape.reduce((x, y) => x * y)) };
}

function read(name, shape) {
  const result = tensor(shape);
  const bytes = fs.readFileSync(name);
  if (bytes.length !== result.data.byteLength) throw new Error(`${name} has ${bytes.length} bytes`);
  Buffer.from(result.data.buffer).set(bytes);
  return result;
}

// Writes an fa_tensor at an offset of a structure.
function describe(structure, offset, { shape, data }) {
  fa.tensorInit(structure.subarray(offset), data, FA_F32, ...shape);
}

const q = read("q.f32", qShape);
const k = read("k.f32", kShape);
const v = read("v.f32", kShape);
const dout = read("dout.f32", qShape);
const [out, lse] = [tensor(qShape), tensor(lseShape)];
const [dq, dk, dv] = [tensor(qShape), tensor(kShape), tensor(kShape)];

const desc = Buffer.alloc(104);
fa.descInit(desc, desc.length);
desc.writeInt32LE(FA_F32, 16); // dtype_q
desc.writeInt32LE(FA_MASK_CAUSAL, 28); // mask
desc.writeBigInt64LE(BigInt(dim), 32); // head_dim
const created = [null];
check(fa.create(desc, created));
const op = created[0];

const args = Buffer.alloc(920);
fa.argsInit(args, args.length);
describe(args, 8, q);
describe(args, 88, k);
describe(args, 168, v);
describe(args, 248, out);
describe(args, 328, lse); // the backward pass reads it
check(fa.forward(op, args));

const backward = Buffer.alloc(1560);
fa.backwardArgsInit(backward, backward.length);
describe(backward, 8, q);
describe(backward, 88, k);
describe(backward, 168, v);
describe(backward, 248, out);
describe(backward, 328, lse);
describe(backward, 408, dout);
describe(backward, 488, dq);
describe(backward, 568, dk);
describe(backward, 648, dv);
check(fa.backward(op, backward));
fa.destroy(op);

for (const [name, { data }] of Object.entries({ out, lse, dq, dk, dv })) fs.writeFileSync(`${name}.f32`, data);
