# The search for the library, the error where it is not found, and the library's messages. Each setting in a separate process.
include("support.jl")
const library = ARGS[1]

"The output of a Julia process that loads the package in a setting, and calls it."
function session(expression; environment...)
    code = "using LibFA; try println($expression) catch e; showerror(stdout, e) end"
    command = `$(Base.julia_cmd()) --startup-file=no --compile=min -e $code`
    return read(setenv(command, merge(ENV, Dict(String(k) => v for (k, v) in environment))), String)
end

@testset "library" begin
    folder = mktempdir()
    @test LibFA.library_path() == realpath(library) || LibFA.library_path() == library
    @test occursin("libfa", session("LibFA.library_path()"; FA_LIB = dirname(library)))

    # A package that is loaded without a library names the missing file when it is called.
    text = session("LibFA.version()"; FA_LIB = joinpath(folder, "none.so"))
    @test all(word -> occursin(word, text), ("LibFA:", "none.so", "FA_LIB", "LocalPreferences.toml", "install libfa"))
    text = session("LibFA.version()"; FA_LIB = "libc.so.6")
    @test occursin("no function fa_forward", text)
    text = session("LibFA.version()"; FA_LIB = "", LD_LIBRARY_PATH = folder)
    @test occursin("libfa.so.0", text) && occursin("the system's loader", text)

    # LocalPreferences.toml next to the environment in use; the variable comes first.
    write(joinpath(folder, "Project.toml"), "")
    write(joinpath(folder, "LocalPreferences.toml"), "[LibFA]\nlibrary = \"$library\"\n")
    load = "$folder:$(dirname(@__DIR__)):@stdlib"
    @test occursin("0.", session("LibFA.version()"; FA_LIB = "", JULIA_LOAD_PATH = load))
    @test occursin("none.so", session("LibFA.version()"; FA_LIB = "none.so", JULIA_LOAD_PATH = load))
    write(joinpath(folder, "LocalPreferences.toml"), "[LibFA\n")
    @test occursin("could not be loaded", session("LibFA.version()"; FA_LIB = "", JULIA_LOAD_PATH = load))

    # The environment reaches the library, and its messages reach the function.
    found = session("(LibFA.set_log(text -> println(\"message: \", text)); LibFA.kernel(LibFA.Op(Float32, 16)))";
        FA_VERBOSE = "dispatch", FA_FORCE_KERNEL = "cpu.generic")
    @test occursin(r"^message: .*cpu\.generic"m, found) && endswith(found, "cpu.generic\n")
    @test occursin("Unsupported", session("LibFA.Op(Float32, 16)"; FA_FORCE_KERNEL = "cpu.none")) ||
          occursin("InvalidArgument", session("LibFA.Op(Float32, 16)"; FA_FORCE_KERNEL = "cpu.none"))
end
