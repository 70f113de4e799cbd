# As a new user: `] dev` of the folder and `] test`, and `] add` of a git repository that has it in a folder, each in a fresh
# depot with an empty registry, and nothing else in reach; then the README's example in a separate process.
#
#   julia packages.jl PACKAGE SCRATCH
using Pkg, Test
const package, scratch = ARGS

function fresh_depot(name)
    depot = joinpath(scratch, name)
    rm(depot; force = true, recursive = true)
    registry = mkpath(joinpath(depot, "registries", "Empty"))
    write(joinpath(registry, "Registry.toml"), """
        name = "Empty"
        uuid = "11111111-2222-3333-4444-555555555555"
        repo = "empty"
        [packages]
        """)
    return depot
end

"A repository as its users clone it: the package in the folder bindings/julia."
function repository()
    folder = joinpath(scratch, "repository")
    rm(folder; force = true, recursive = true)
    mkpath(joinpath(folder, "bindings"))
    cp(package, joinpath(folder, "bindings", "julia"))
    git(arguments) = run(`git -C $folder -c user.name=test -c user.email=test@localhost $arguments`)
    git(`init -q`)
    git(`add -A`)
    git(`commit -q -m package`)
    return folder
end

function works(name, command)
    depot = fresh_depot(name)
    example = match(r"```julia\n(.*?)```"s, read(joinpath(package, "README.md"), String))[1]
    environment = merge(ENV, Dict("JULIA_DEPOT_PATH" => depot, "JULIA_PROJECT" => joinpath(depot, "project"),
        "JULIA_PKG_OFFLINE" => "true", "JULIA_PKG_SERVER" => ""))
    delete!(environment, "JULIA_LOAD_PATH") # that of the other tests would lead `] test` to packages that it does not name
    mkpath(joinpath(depot, "project"))
    code = "import Pkg; Pkg.UPDATED_REGISTRY_THIS_SESSION[] = true; $command\n$example\nprintln(pathof(LibFA), ' ', size(out))"
    text = read(setenv(`$(Base.julia_cmd()) --startup-file=no -O0 -e $code`, environment), String)
    print(text)
    return text
end

# A registry wants versions of each package that is not Julia's own, and Julia before 1.9 takes them of extras alone.
@testset "Project.toml" begin
    project = Pkg.TOML.parsefile(joinpath(package, "Project.toml"))
    @test !isempty(project["authors"])
    for (name, uuid) in project["weakdeps"]
        @test haskey(project["compat"], name)
        @test get(project["extras"], name, nothing) == uuid
    end
end

@testset "packages" begin
    text = works("dev", "Pkg.develop(Pkg.PackageSpec(path = $(repr(package)))); Pkg.test(\"LibFA\")")
    @test occursin("(64, 8, 128, 2)", text) && occursin(r"fuzz +\|", text) && occursin(joinpath(package, "src"), text)
    text = works("add", "Pkg.add(Pkg.PackageSpec(url = $(repr(repository())), subdir = \"bindings/julia\"))")
    @test occursin("(64, 8, 128, 2)", text) && occursin(joinpath(scratch, "add", "packages", "LibFA"), text)
end
