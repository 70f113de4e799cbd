# Arrays in a GPU's memory through the extension for CUDA.jl, over a stand-in that has the driver's memory: the emulator's.
include("support.jl")
pushfirst!(LOAD_PATH, joinpath(@__DIR__, "on_device"))
using CUDA: CUDA, CuArray
include(joinpath(@__DIR__, "..", "ext", "LibFACUDAExt.jl"))

apart(a, b) = maximum(abs.(Float64.(a) .- Float64.(b)))

@testset "as on the CPU" for (index, T, near) in ((0, Float32, 2e-6), (0, Float16, 4e-3), (1, Float32, 2e-6))
    CUDA.use(index)
    q, k, v = (T.(randn(Float32, 16, heads, rows, 2)) for (heads, rows) in ((4, 5), (2, 12), (2, 12)))
    used = Int32[7, 12]
    wanted, logarithms = attention(q, k, v; causal = true, softcap = 2, seqused_k = used, return_lse = true)
    there = map(CuArray, (q, k, v))
    out, lse = attention(there...; causal = true, softcap = 2, seqused_k = CuArray(used), return_lse = true)
    @test out isa CuArray{T,4} && lse isa CuArray{Float32,3} && LibFA.device_index(out) == index
    @test apart(Array(out), wanted) < near && apart(Array(lse), logarithms) < 1e-4

    # A view of it, in place, through an op of one's own.
    op = LibFA.Op(T, 16; causal = true, device = :cuda, device_index = index)
    @test startswith(LibFA.kernel(op), "cuda.sm_")
    part = view(there[1], :, 2:3, 5:-1:1, :)
    result = CuArray(zeros(T, 16, 2, 5, 2))
    op(result, part, there[2], there[3])
    @test apart(Array(result), attention(q[:, 2:3, 5:-1:1, :], k, v; causal = true)) < near

    # Gradients, there too.
    wanted, logarithms = attention(q, k, v; causal = true, return_lse = true)
    expected = attention_backward(wanted, wanted, logarithms, q, k, v; causal = true)
    found = attention_backward(map(CuArray, (wanted, wanted, logarithms))..., there...; causal = true)
    @test found.dq isa CuArray{T,4} && all(name -> apart(Array(found[name]), expected[name]) < 8near, keys(expected))
end

@testset "tensors of different devices" begin
    CUDA.use(0)
    host = randn(Float32, 16, 2, 4, 1)
    here = CuArray(host)
    @test throws(() -> attention(here, here, host), LibFA.InvalidArgument, "several devices")
    @test throws(() -> attention(here, here, here; seqused_k = Int32[4]), LibFA.InvalidArgument, "several devices")
    CUDA.use(1)
    @test throws(() -> attention(here, here, CuArray(host)), LibFA.InvalidArgument, "several devices")
end
