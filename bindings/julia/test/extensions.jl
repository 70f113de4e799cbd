# The extensions, loaded by hand and against stand-ins for the packages that they extend: Julia 1.5 has no extensions, and no
# registry is asked for. That of ChainRulesCore is gradients.jl's.
include("support.jl")
pushfirst!(LOAD_PATH, joinpath(@__DIR__, "stand_ins"))
using CUDA: CUDA
using NNlib: NNlib
for name in ("CUDA", "NNlib")
    include(joinpath(@__DIR__, "..", "ext", "LibFA$(name)Ext.jl"))
end

@testset "NNlib" begin
    close_to(a, b) = maximum(abs.(a .- b)) < 1e-5
    q, k, v = randn(Float32, 48, 5, 2), randn(Float32, 48, 9, 2), randn(Float32, 48, 9, 2)
    bias, mask = randn(Float32, 9, 5, 3, 2), rand(9, 5) .< 0.8
    mask[1, :] .= true
    for nheads in (1, 3), options in (NamedTuple(), (mask = mask,))
        wanted, scores = NNlib.dot_product_attention(q, k, v; nheads = nheads, options...)
        out, lse = LibFA.dot_product_attention(q, k, v; nheads = nheads, options...)
        @test size(out) == size(wanted) && close_to(out, wanted) && size(lse) == (5, nheads, 2)
        op = LibFA.Op(Float32, 48 ÷ nheads)
        @test NNlib.dot_product_attention(op, q, k, v; nheads = nheads, options...) == (out, lse)
    end
    biased(f) = f(q, k, v, bias; nheads = 3)[1]
    @test close_to(biased(LibFA.dot_product_attention), biased(NNlib.dot_product_attention))
    @test size(LibFA.dot_product_attention(q[:, :, 1], k[:, :, 1], v[:, :, 1])[1]) == (48, 5) # no batch
    @test throws(() -> LibFA.dot_product_attention(q, k, v; fdrop = x -> x / 2), LibFA.Unsupported, "fdrop")
    @test throws(() -> LibFA.dot_product_attention(q, k, v; nheads = 5), LibFA.InvalidArgument, "nheads", "48", "5")
end

@testset "CUDA" begin
    host = randn(Float32, 16, 2, 4, 3)
    q, k, v, out = (CUDA.CuArray(copy(host), 1) for _ in 1:4)
    call, _ = LibFA.arguments(out, q, k, v)
    @test call.q.data == Ptr{Cvoid}(pointer(q.memory)) && call.stream == Ptr{Cvoid}(UInt(0x1230))
    @test LibFA.device(q) == C.FA_DEVICE_CUDA && LibFA.device_index(q) == 1
    # Views and permutations of them live there, too, and have their addresses without the array being read.
    part = view(q, :, 2:2, 3:-1:1, :)
    seen = LibFA.arguments(out, part, k, v)[1].q
    @test LibFA.device(part) == C.FA_DEVICE_CUDA && LibFA.device_index(part) == 1
    @test seen.data == call.q.data + 4 * (16 + 2 * 32) && seen.stride == (128, -32, 16, 1)
    @test LibFA.device(PermutedDimsArray(q, (1, 3, 2, 4))) == C.FA_DEVICE_CUDA
    # The op asks for that device: this library says that it is not there, or has a kernel for it.
    error = thrown(() -> attention(q, k, v))
    @test error === nothing || error isa LibFA.Error
    @test LibFA.describe(Float32, 16; device = LibFA.device(q), device_index = LibFA.device_index(q)).device_index == 1
    @test throws(() -> attention!(out, q, k, host), LibFA.InvalidArgument, "several devices", "CuArray")
    @test throws(() -> attention!(out, q, k, CUDA.CuArray(host, 0)), LibFA.InvalidArgument, "several devices")
    @test throws(() -> attention!(out, q, k, v; seqused_k = Int32[1, 2, 3]), LibFA.InvalidArgument, "several devices")
end
