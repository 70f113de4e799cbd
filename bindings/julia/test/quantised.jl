# Quantised keys and values: a result on codes is the result on their numbers.
using LibFA, Test

@testset "quantised keys and values" begin
    q = randn(Float32, 32, 4, 3, 2)
    codes = rand(Int8, 32, 2, 50, 2)
    scale = rand(Float32, 1, 2, 50, 2) ./ 50
    zero = rand(Float32, 4, 2, 1, 1)
    meant = (codes .- repeat(zero; inner = (8, 1, 1, 1))) .* scale
    given = LibFA.codes(LibFA.I8, codes)
    found = attention(q, given, given; k_scale = scale, v_scale = scale, k_zero = zero, v_zero = zero)
    @test found ≈ attention(q, meant, meant) atol = 1e-4
    @test_throws LibFA.InvalidArgument attention(q, given, given)
    @test_throws LibFA.InvalidArgument attention(q, codes, codes)

    bytes = zeros(UInt8, 34, 2, 50, 2)
    @test all(iszero, attention(q, meant, LibFA.codes(LibFA.Q8_0, bytes)))
    fp8 = fill(0x38, 32, 2, 50, 2) # 1
    @test attention(q, meant, LibFA.codes(LibFA.E4M3, fp8)) ≈ ones(32, 4, 3, 2) # weights sum to 1 within rounding
    @test_throws LibFA.InvalidArgument LibFA.codes(LibFA.Q4_0, bytes)
end

@testset "keys in two parts" begin
    q, k, v, last = randn(Float32, 24, 4, 3, 2), randn(Float32, 16, 2, 50, 2), randn(Float32, 16, 2, 50, 2), randn(Float16, 8, 2, 50, 2)
    whole = cat(k, Float32.(last); dims = 1)
    @test attention(q, k, v; k_rope = last) ≈ attention(q, whole, v)
    @test_throws LibFA.InvalidArgument attention(q, k, v)

    cached, rest = zeros(Float32, 16, 2, 60, 2), zeros(Float16, 8, 2, 60, 2)
    attention_append!(cached, nothing, k, nothing; k_rope = Float32.(last), k_rope_cache = rest)
    @test cached[:, :, 1:50, :] == k && rest[:, :, 1:50, :] == last
end
