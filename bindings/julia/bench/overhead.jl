# The cost of a call on top of the attention itself, by an attention so small that it costs next to nothing: the best of many rounds.
using LibFA

function microseconds(f; rounds = 50, calls = 1000)
    f()
    round() = (start = time_ns(); for _ in 1:calls; f(); end; (time_ns() - start) / calls / 1000)
    return minimum([round() for _ in 1:rounds])
end

q, k, v = (randn(Float32, 16, 1, 4, 1) for _ in 1:3)
out = similar(q)
op = LibFA.Op(Float32, 16; num_threads = 1)
call, roots = LibFA.arguments(out, q, k, v)
reference, handle = Ref(call), op.handle
c = microseconds(() -> LibFA.C.fa_forward(handle, reference))
for (name, f) in ("op(out, q, k, v)" => () -> op(out, q, k, v),
    "attention!(out, q, k, v; num_threads = 1)" => () -> attention!(out, q, k, v; num_threads = 1),
    "attention(q, k, v; num_threads = 1)" => () -> attention(q, k, v; num_threads = 1))
    total = microseconds(f)
    println(rpad(name, 44), round(total; digits = 2), " us, of which fa_forward ", round(c; digits = 2), " us")
end
