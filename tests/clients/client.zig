// Causal attention of 4 query heads over 2 key/value heads, and its gradients, in Zig. Reads q, k, v and dout from files of the
// current folder and writes out, lse, dq, dk and dv.
//
//   zig translate-c -lc fa.h > fa.zig; zig build-exe client.zig -lc -lfa
const std = @import("std");
const fa = @import("fa.zig");

const batch = 2;
const queries = 5;
const keys = 9;
const heads = 4;
const kv_heads = 2;
const dim = 16;
const QArray = [batch * queries * heads * dim]f32;
const KArray = [batch * keys * kv_heads * dim]f32;

var q: QArray = undefined;
var k: KArray = undefined;
var v: KArray = undefined;
var out: QArray = undefined;
var lse: [batch * heads * queries]f32 = undefined;
var dout: QArray = undefined;
var dq: QArray = undefined;
var dk: KArray = undefined;
var dv: KArray = undefined;

fn check(status: fa.fa_status) void {
    if (status == fa.FA_OK) return;
    std.debug.print("{s}\n", .{std.mem.span(fa.fa_last_error())});
    std.process.exit(1);
}

// Files by C's functions, which stay as they are from one version of Zig to the next.
extern "c" fn fopen(name: [*:0]const u8, mode: [*:0]const u8) ?*anyopaque;
extern "c" fn fread(to: *anyopaque, size: usize, n: usize, file: *anyopaque) usize;
extern "c" fn fwrite(from: *const anyopaque, size: usize, n: usize, file: *anyopaque) usize;
extern "c" fn fclose(file: *anyopaque) c_int;

fn read(name: [*:0]const u8, data: []f32) !void {
    const file = fopen(name, "rb") orelse return error.CannotOpen;
    const n = fread(data.ptr, @sizeOf(f32), data.len, file);
    if (fclose(file) != 0 or n != data.len) return error.CannotRead;
}

fn write(name: [*:0]const u8, data: []const f32) !void {
    const file = fopen(name, "wb") orelse return error.CannotOpen;
    const n = fwrite(data.ptr, @sizeOf(f32), data.len, file);
    if (fclose(file) != 0 or n != data.len) return error.CannotWrite;
}

pub fn main() !void {
    try read("q.f32", &q);
    try read("k.f32", &k);
    try read("v.f32", &v);
    try read("dout.f32", &dout);

    var desc: fa.fa_desc = undefined;
    fa.fa_desc_init(&desc, @sizeOf(fa.fa_desc));
    desc.dtype_q = fa.FA_F32;
    desc.head_dim = dim;
    desc.mask = fa.FA_MASK_CAUSAL;
    var op: ?*fa.fa_op = null;
    check(fa.fa_create(&desc, &op));
    defer fa.fa_destroy(op);

    var args: fa.fa_forward_args = undefined;
    fa.fa_forward_args_init(&args, @sizeOf(fa.fa_forward_args));
    fa.fa_tensor_init(&args.q, &q, fa.FA_F32, batch, queries, heads, dim);
    fa.fa_tensor_init(&args.k, &k, fa.FA_F32, batch, keys, kv_heads, dim);
    fa.fa_tensor_init(&args.v, &v, fa.FA_F32, batch, keys, kv_heads, dim);
    fa.fa_tensor_init(&args.out, &out, fa.FA_F32, batch, queries, heads, dim);
    fa.fa_tensor_init(&args.lse, &lse, fa.FA_F32, batch, heads, queries, 1); // the backward pass reads it
    check(fa.fa_forward(op, &args));

    var backward: fa.fa_backward_args = undefined;
    fa.fa_backward_args_init(&backward, @sizeOf(fa.fa_backward_args));
    backward.q = args.q;
    backward.k = args.k;
    backward.v = args.v;
    backward.out = args.out;
    backward.lse = args.lse;
    fa.fa_tensor_init(&backward.dout, &dout, fa.FA_F32, batch, queries, heads, dim);
    fa.fa_tensor_init(&backward.dq, &dq, fa.FA_F32, batch, queries, heads, dim);
    fa.fa_tensor_init(&backward.dk, &dk, fa.FA_F32, batch, keys, kv_heads, dim);
    fa.fa_tensor_init(&backward.dv, &dv, fa.FA_F32, batch, keys, kv_heads, dim);
    check(fa.fa_backward(op, &backward));

    try write("out.f32", &out);
    try write("lse.f32", &lse);
    try write("dq.f32", &dq);
    try write("dk.f32", &dk);
    try write("dv.f32", &dv);
}
