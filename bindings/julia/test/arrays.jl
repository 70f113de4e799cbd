# Arrays as users have them: layouts, views, permutations, no batch, other element types; without copies, and kept alive.
include("support.jl")

"Attention of one head in Float64: q (D, Sq), k (D, Sk), v (Dv, Sk)."
function plain(q, k, v; attended = trues(size(k, 2), size(q, 2)))
    x = ifelse.(attended, transpose(Float64.(k)) * Float64.(q) ./ sqrt(size(q, 1)), -Inf)
    p = exp.(x .- maximum(x; dims = 1))
    return Float64.(v) * p ./ sum(p; dims = 1), vec(log.(sum(p; dims = 1)) .+ maximum(x; dims = 1))
end

close_to(a, b) = maximum(abs.(a .- b)) < 1e-5

@testset "arrays" begin
    q, k, v = randn(Float32, 24, 4, 7, 2), randn(Float32, 24, 2, 9, 2), randn(Float32, 8, 2, 9, 2)
    out, lse = attention(q, k, v; causal = true, return_lse = true)
    @test size(out) == (8, 4, 7, 2) && size(lse) == (7, 4, 2)
    attended = [j <= i + 2 for j in 1:9, i in 1:7]
    for h in 1:4, b in 1:2
        wanted, logarithms = plain(q[:, h, :, b], k[:, (h + 1) ÷ 2, :, b], v[:, (h + 1) ÷ 2, :, b]; attended = attended)
        @test close_to(out[:, h, :, b], wanted) && close_to(lse[:, h, b], logarithms)
    end
    same(found) = @test found == out

    # (D, S, H, B), a permutation and views of larger arrays are the same elements.
    swap(a) = permutedims(a, (1, 3, 2, 4))
    same(swap(attention(swap(q), swap(k), swap(v); causal = true, layout = :dshb)))
    same(attention(PermutedDimsArray(swap(q), (1, 3, 2, 4)), k, v; causal = true))
    qkv = cat(q, randn(Float32, 24, 4, 7, 2); dims = 2)
    same(attention(view(qkv, :, 1:4, :, :), k, v; causal = true))
    same(attention(view(reverse(q; dims = 3), :, :, 7:-1:1, :), k, v; causal = true))
    gaps = zeros(Float32, 48, 4, 7, 2)
    gaps[1:2:47, :, :, :] = q
    same(attention(view(gaps, 1:2:47, :, :, :), k, v; causal = true))
    same(attention(view(view(qkv, :, 1:4, :, :), :, :, :, :), k, v; causal = true))
    same(attention(reshape(vec(q), size(q)), k, v; causal = true))
    # Into a part of an array, and nothing next to it.
    large = fill(7f0, 8, 4, 9, 2)
    attention!(view(large, :, :, 2:8, :), q, k, v; causal = true)
    @test large[:, :, 2:8, :] == out && all(==(7), large[:, :, [1, 9], :])

    # Three dimensions: no batch.
    @test attention(q[:, :, :, 1], k[:, :, :, 1], v[:, :, :, 1]; causal = true) == out[:, :, :, 1]
    second(a) = swap(a)[:, :, :, 2]
    single, logs = attention(second(q), second(k), second(v); causal = true, layout = :dshb, return_lse = true)
    @test single == swap(out)[:, :, :, 2] && logs == lse[:, :, 2]

    # Packed sequences; rows outside of all of them are 0.
    packed(a) = reshape(a, size(a, 1), size(a, 2), :)
    @test packed(out) == attention(packed(q), packed(k), packed(v); causal = true, cu_seqlens_q = [0, 7, 14], cu_seqlens_k = 0:9:18)
    part, logs = attention(q, k, v; seqused_q = [3, 7], return_lse = true)
    @test all(iszero, part[:, :, 4:7, 1]) && all(==(-Inf32), logs[4:7, :, 1]) && all(isfinite, logs[:, :, 2])
    @test size(attention(q[:, :, :, 1:0], k[:, :, :, 1:0], v[:, :, :, 1:0])) == (8, 4, 7, 0)

    # Other element types, and mixed ones.
    for T in (Float16, LibFA.BFloat16)
        half = map(a -> T.(a), (q, k, v))
        wide = map(a -> Float32.(a), half)
        @test eltype(attention(half...)) == T
        @test maximum(abs.(Float32.(attention(half...)) .- attention(wide...))) < 0.02
        @test eltype(attention(half...; out_type = Float32)) == Float32
        @test maximum(abs.(attention(wide[1], half[2:3]...) .- attention(wide...))) < 1e-5
    end
    @test Float32.(LibFA.BFloat16.(Float32[1, -2.5, 1 + 2^-8, 1 + 3 * 2^-8, Inf])) == Float32[1, -2.5, 1, 1 + 2^-6, Inf]
    @test isnan(Float32(LibFA.BFloat16(NaN32)))

    # Nothing is copied: a call's allocations do not grow with its tensors, and are few.
    op = LibFA.Op(Float32, 24; head_dim_v = 8, causal = true, num_threads = 1)
    function bytes(n)
        a = map(((d, heads),) -> ones(Float32, d, heads, n, 2), ((8, 4), (24, 4), (24, 2), (8, 2)))
        op(a...)
        return @allocated op(a...)
    end
    @test bytes(500) == bytes(5) < 4096

    # Temporaries live as long as the call, under a collector that runs all the time.
    for _ in 1:20
        found = attention(copy(q), copy(k), copy(v); causal = true, seqused_k = (GC.gc(); [9, 9]), bias = zeros(Float32, 9, 7))
        @test close_to(found, out)
    end

    # The C interface as it is.
    t = Ref{C.fa_tensor}()
    C.fa_tensor_init(t, pointer(q), C.FA_F32, 2, 7, 4, 24)
    @test t[] == LibFA.tensor("q", q, :dhsb)
    @test LibFA.version() == VersionNumber(C.FA_VERSION_STRING) && startswith(LibFA.build_info(), "libfa")
    @test occursin("cpu.generic", sprint(LibFA.info))
end
