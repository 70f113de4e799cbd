# Trees of new tokens: a result is that of a boolean mask which says the same.
using LibFA, Test

@testset "a tree of new tokens" begin
    prefix, tokens = 20, 5
    q, k, v = randn(Float32, 16, 4, tokens, 2), randn(Float32, 16, 2, prefix + tokens, 2), randn(Float32, 16, 2, prefix + tokens, 2)
    parent = [0, 1, 1, 2, 0]
    attended = falses(tokens, tokens) # new keys of each query
    for i = 1:tokens
        parent[i] == 0 || (attended[:, i] = attended[:, parent[i]])
        attended[i, i] = true
    end
    words = Int32[sum(2^(n - 1) for n = 1:tokens if attended[n, i]) for _ = 1:1, i = 1:tokens]
    mask = Array(vcat(trues(prefix, tokens), attended))
    found = attention(q, k, v; causal = true, tree_mask = words)
    @test found ≈ attention(q, k, v; mask = mask) atol = 1e-5
    depth = Int32[0, 1, 1, 2, 0]
    @test attention(q, k, v; causal = true, tree_mask = words, tree_depth = depth) == found # as nothing reads positions
    @test attention(q, k, v; causal = true, tree_mask = words, tree_depth = depth, window = (0, 0)) ≉ found
    @test_throws LibFA.InvalidArgument attention(q, k, v; tree_mask = words)
    @test_throws LibFA.InvalidArgument attention(q, k, v; causal = true, tree_mask = words, tree_depth = depth .+ Int32(4))
end
