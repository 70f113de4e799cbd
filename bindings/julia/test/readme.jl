# The examples of the README and of the guide in docs/ (which a package alone has not), as written.
include("support.jl")
const readme = read(joinpath(@__DIR__, "..", "README.md"), String)

const guide = joinpath(@__DIR__, "..", "..", "..", "docs", "guides", "julia.md")
isfile(guide) && @testset "guide" begin
    examples = [m[1] for m in eachmatch(r"```julia\n(.*?)```"s, read(guide, String))]
    @test length(examples) == 5
    scope = Module()
    foreach(example -> Base.include_string(scope, example, guide), examples)
    @test occursin("head_dim", scope.message)
end

@testset "README" begin
    examples = [m[1] for m in eachmatch(r"```julia\n(.*?)```"s, readme)]
    @test length(examples) == 4 && count(==('\n'), examples[1]) <= 8
    scope = Module()
    foreach(example -> Base.include_string(scope, example, "README.md"), examples)
    @test size(scope.out) == (64, 8, 128, 2) && all(isfinite, scope.out)
    @test scope.v_cache[:, :, 101:228, 1] == Float16.(scope.v[:, :, :, 1])
    @test map(size, (scope.dq, scope.dk, scope.dv)) == map(size, (scope.q, scope.k, scope.v))
    # Every keyword is described where users look.
    documented = string(@doc(LibFA.Op), @doc(attention!), @doc(attention), @doc(attention_backward!), @doc(attention_merge!),
        @doc(attention_append!))
    keywords = mapreduce(f -> Base.kwarg_decl(first(methods(f))), vcat,
        (LibFA.describe, LibFA.arguments, LibFA.backward_arguments, LibFA.merge_arguments, LibFA.append_arguments))
    @test length(keywords) > 50
    for keyword in setdiff(keywords, [Symbol("unknown...")])
        @test occursin("$keyword", documented)
    end
end
