# Causal attention of 4 query heads over 2 key/value heads, and its gradients, in Ruby by Fiddle and the numbers of `schema/generate.py layout`.
# Reads q, k, v and dout from files of the current folder and writes out, lse, dq, dk and dv.
#
#   ruby client.rb libfa.so.0
require "fiddle/import"

module FA
  extend Fiddle::Importer
  dlload ARGV.fetch(0)
  extern "void fa_desc_init(void *desc, size_t struct_size)"
  extern "void fa_forward_args_init(void *args, size_t struct_size)"
  extern "void fa_backward_args_init(void *args, size_t struct_size)"
  extern "void fa_tensor_init(void *tensor, void *data, int dtype, long d0, long d1, long d2, long d3)"
  extern "int fa_create(void *desc, void *op)"
  extern "int fa_forward(void *op, void *args)"
  extern "int fa_backward(void *op, void *args)"
  extern "void fa_destroy(void *op)"
  extern "const char *fa_last_error()"

  OK = 0
  F32 = 1
  MASK_CAUSAL = 1

  def self.check(status)
    raise fa_last_error.to_s unless status == OK
  end
end

BATCH, QUERIES, KEYS, HEADS, KV_HEADS, DIM = 2, 5, 9, 4, 2, 16
Q_SHAPE = [BATCH, QUERIES, HEADS, DIM]
K_SHAPE = [BATCH, KEYS, KV_HEADS, DIM]
LSE_SHAPE = [BATCH, HEADS, QUERIES, 1]

# An array in C's memory, where the garbage collector moves nothing.
class Tensor
  def initialize(shape)
    @shape = shape
    @data = Fiddle::Pointer.malloc(4 * shape.inject(:*), Fiddle::RUBY_FREE)
  end

  def read(name)
    bytes = File.binread(name)
    raise "#{name} has #{bytes.size} bytes, not #{@data.size}" unless bytes.size == @data.size
    @data[0, @data.size] = bytes
    self
  end

  def write(name)
    File.binwrite(name, @data[0, @data.size])
  end

  # Writes an fa_tensor at an offset of a structure.
  def describe(structure, offset)
    FA.fa_tensor_init(structure + offset, @data, FA::F32, *@shape)
  end
end

q = Tensor.new(Q_SHAPE).read("q.f32")
k = Tensor.new(K_SHAPE).read("k.f32")
v = Tensor.new(K_SHAPE).read("v.f32")
dout = Tensor.new(Q_SHAPE).read("dout.f32")
out, lse = Tensor.new(Q_SHAPE), Tensor.new(LSE_SHAPE)
dq, dk, dv = Tensor.new(Q_SHAPE), Tensor.new(K_SHAPE), Tensor.new(K_SHAPE)

desc = Fiddle::Pointer.malloc(104, Fiddle::RUBY_FREE)
FA.fa_desc_init(desc, desc.size)
desc[16, 4] = [FA::F32].pack("l")         # dtype_q
desc[28, 4] = [FA::MASK_CAUSAL].pack("l") # mask
desc[32, 8] = [DIM].pack("q")             # head_dim
created = Fiddle::Pointer.malloc(Fiddle::SIZEOF_VOIDP, Fiddle::RUBY_FREE)
FA.check(FA.fa_create(desc, created))
op = created.ptr

args = Fiddle::Pointer.malloc(920, Fiddle::RUBY_FREE)
FA.fa_forward_args_init(args, args.size)
q.describe(args, 8)
k.describe(args, 88)
v.describe(args, 168)
out.describe(args, 248)
lse.describe(args, 328) # the backward pass reads it
FA.check(FA.fa_forward(op, args))

backward = Fiddle::Pointer.malloc(1560, Fiddle::RUBY_FREE)
FA.fa_backward_args_init(backward, backward.size)
q.describe(backward, 8)
k.describe(backward, 88)
v.describe(backward, 168)
out.describe(backward, 248)
lse.describe(backward, 328)
dout.describe(backward, 408)
dq.describe(backward, 488)
dk.describe(backward, 568)
dv.describe(backward, 648)
FA.check(FA.fa_backward(op, backward))
FA.fa_destroy(op)

out.write("out.f32")
lse.write("lse.f32")
dq.write("dq.f32")
dk.write("dk.f32")
dv.write("dv.f32")
