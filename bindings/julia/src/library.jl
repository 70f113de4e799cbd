# Finds libfa.so and the functions in it, once, when the package is loaded. A missing library is reported by the first
# call that needs it, so that the package itself can always be loaded and precompiled.

"The library was not found, or is not the one that this package needs."
struct LibraryError <: Exception
    text::String
end
Base.showerror(io::IO, e::LibraryError) = print(io, "LibFA: ", e.text)

const handle = Ref{Ptr{Cvoid}}(C_NULL)
const load_error = Ref("LibFA has not been initialised")

"The address of a function of the library. Throws [`LibraryError`](@ref) when the library lacks it."
@inline function address(found::Ref{Ptr{Cvoid}}, name::Symbol)
    found[] == C_NULL && throw_missing(name)
    return found[]
end

@noinline function throw_missing(name)
    handle[] == C_NULL && throw(LibraryError(load_error[]))
    throw(LibraryError("$(library_path()) has no function $name: it is older than this package (fa.h " *
                       "$(C.FA_VERSION_STRING)); install libfa $(C.FA_VERSION_STRING) or newer"))
end

"The path of the library that is in use."
library_path() = handle[] == C_NULL ? throw(LibraryError(load_error[])) : Libdl.dlpath(handle[])

"The reader of TOML files: a standard library since Julia 1.6, a part of Pkg before."
function toml_reader()
    toml = Base.PkgId(Base.UUID("fa267f1f-6049-4f14-aa54-33bafae1ed76"), "TOML")
    pkg = Base.PkgId(Base.UUID("44cfe95a-1eb2-52ea-b672-e2afdf69b78f"), "Pkg")
    return VERSION >= v"1.6" ? Base.require(toml) : Base.require(pkg).TOML
end

"`library` of the section `[LibFA]` in the LocalPreferences.toml of the first environment that has one; else nothing."
function preferred_library()
    for environment in Base.load_path()
        folder = isdir(environment) ? environment : dirname(environment)
        file = joinpath(folder, "LocalPreferences.toml")
        isfile(file) || continue
        preferences = Base.invokelatest(toml_reader().parsefile, file)
        path = get(get(preferences, "LibFA", Dict{String,Any}()), "library", nothing)
        path === nothing || return String(path)
    end
    return nothing
end

"The file to load: FA_LIB, else LocalPreferences.toml, else the one that the system's loader finds under the library's soname."
function chosen_library()
    path = get(ENV, "FA_LIB", "")
    isempty(path) || return path, "the environment variable FA_LIB"
    path = preferred_library()
    path === nothing || return path, "LocalPreferences.toml"
    return Sys.isapple() ? "libfa.$(C.FA_ABI_VERSION).dylib" : "libfa.so.$(C.FA_ABI_VERSION)", "the system's loader"
end

"Opens the library and finds its functions; leaves the reason in `load_error` when that fails."
function open_library()
    path, source = "", ""
    try
        path, source = chosen_library()
        isdir(path) && (path = joinpath(path, "libfa.so"))
        opened = Libdl.dlopen(path)
        # Augeas has a libfa, too.
        Libdl.dlsym(opened, :fa_forward, throw_error = false) === nothing && error("it has no function fa_forward")
        handle[] = opened
    catch e
        handle[] = C_NULL
        load_error[] = string("libfa could not be loaded from ", repr(path), " (", source, "): ", sprint(showerror, e),
            "; install libfa, or set FA_LIB to the path of libfa.so, or write a LocalPreferences.toml next to the ",
            "Project.toml in use: [LibFA] library = \"/path/to/libfa.so\"")
    end
    for (name, found) in C.functions
        symbol = handle[] == C_NULL ? nothing : Libdl.dlsym(handle[], name, throw_error = false)
        found[] = symbol === nothing ? C_NULL : symbol
    end
    return
end
