-- Causal attention of 4 query heads over 2 key/value heads, and its gradients, in LuaJIT by its FFI. Reads q, k, v and dout from
-- files of the current folder and writes out, lse, dq, dk and dv.
--
--   cc -E -P fa.h > fa.i; luajit client.lua libfa.so.0 fa.i
local ffi = require("ffi")

ffi.cdef(assert(io.open(arg[2])):read("*a")) -- fa.h as the preprocessor leaves it, declarations and enumerators alone
local fa = ffi.load(arg[1])

local batch, queries, keys, heads, kv_heads, dim = 2, 5, 9, 4, 2, 16
local q_size, k_size = batch * queries * heads * dim, batch * keys * kv_heads * dim

local function check(status)
  if status ~= fa.FA_OK then
    error(ffi.string(fa.fa_last_error()), 0)
  end
end

local function floats(n)
  return ffi.new("float[?]", n)
end

local function read(name, n)
  local file = assert(io.open(name, "rb"))
  local bytes = assert(file:read(4 * n))
  file:close()
  local data = floats(n)
  ffi.copy(data, bytes, 4 * n)
  return data
end

local function write(name, data)
  local file = assert(io.open(name, "wb"))
  assert(file:write(ffi.string(data, ffi.sizeof(data))))
  assert(file:close())
end

-- A pointer within a structure keeps nothing alive: these variables do, up to the end of the program.
local q, k, v, dout = read("q.f32", q_size), read("k.f32", k_size), read("v.f32", k_size), read("dout.f32", q_size)
local out, lse = floats(q_size), floats(batch * heads * queries)
local dq, dk, dv = floats(q_size), floats(k_size), floats(k_size)

local desc = ffi.new("fa_desc")
fa.fa_desc_init(desc, ffi.sizeof(desc))
desc.dtype_q = fa.FA_F32
desc.head_dim = dim
desc.mask = fa.FA_MASK_CAUSAL
local created = ffi.new("fa_op *[1]")
check(fa.fa_create(desc, created))
local op = ffi.gc(created[0], fa.fa_destroy)

local args = ffi.new("fa_forward_args")
fa.fa_forward_args_init(args, ffi.sizeof(args))
fa.fa_tensor_init(args.q, q, fa.FA_F32, batch, queries, heads, dim)
fa.fa_tensor_init(args.k, k, fa.FA_F32, batch, keys, kv_heads, dim)
fa.fa_tensor_init(args.v, v, fa.FA_F32, batch, keys, kv_heads, dim)
fa.fa_tensor_init(args.out, out, fa.FA_F32, batch, queries, heads, dim)
fa.fa_tensor_init(args.lse, lse, fa.FA_F32, batch, heads, queries, 1) -- the backward pass reads it
check(fa.fa_forward(op, args))

local backward = ffi.new("fa_backward_args")
fa.fa_backward_args_init(backward, ffi.sizeof(backward))
backward.q, backward.k, backward.v = args.q, args.k, args.v
backward.out, backward.lse = args.out, args.lse
fa.fa_tensor_init(backward.dout, dout, fa.FA_F32, batch, queries, heads, dim)
fa.fa_tensor_init(backward.dq, dq, fa.FA_F32, batch, queries, heads, dim)
fa.fa_tensor_init(backward.dk, dk, fa.FA_F32, batch, keys, kv_heads, dim)
fa.fa_tensor_init(backward.dv, dv, fa.FA_F32, batch, keys, kv_heads, dim)
check(fa.fa_backward(op, backward))

write("out.f32", out)
write("lse.f32", lse)
write("dq.f32", dq)
write("dk.f32", dk)
write("dv.f32", dv)
