# The README's first example, as written.
include("support.jl")
const readme = read(joinpath(@__DIR__, "..", "README.md"), String)

@testset "README" begin
    example = match(r"```julia\n(.*?)```"s, readme)[1]
    @test count(==('\n'), example) <= 8
    scope = Module()
    Base.include_string(scope, example, "README.md")
    @test size(scope.out) == (64, 8, 128, 2) && all(isfinite, scope.out)
    # Every keyword is described where users look.
    documented = string(@doc(LibFA.Op), @doc(attention!), @doc(attention))
    keywords = [Base.kwarg_decl(first(methods(LibFA.describe))); Base.kwarg_decl(first(methods(LibFA.arguments)))]
    @test length(keywords) > 30
    for keyword in setdiff(keywords, [Symbol("unknown...")])
        @test occursin("$keyword", documented)
    end
end
