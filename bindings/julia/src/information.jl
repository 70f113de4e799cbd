# The library and its kernels, and why each can or cannot run here.

"The version of the library that is loaded."
function version()
    v = C.fa_version()
    return VersionNumber(v ÷ 10000, v ÷ 100 % 100, v % 100)
end

"One line on how the library was built."
build_info() = unsafe_string(C.fa_build_info())

"The kernels of the library, best first: named tuples of name, device, arch, compute_dtypes, available,
unavailable_reason and backward (the names of the kernels that compute gradients, best first)."
kernels() = [kernel_info(i) for i in 0:C.fa_kernel_count()-1]

"Kernel `index`, counted from 0 as in fa.h."
function kernel_info(index::Integer)
    found = Ref(C.fa_kernel(sizeof(C.fa_kernel), C_NULL, C_NULL, C_NULL, C_NULL, 0, 0, C_NULL))
    check(C.fa_kernel_info(index, found))
    k = found[]
    return (name = unsafe_string(k.name), device = unsafe_string(k.device), arch = unsafe_string(k.arch),
        compute_dtypes = unsafe_string(k.compute_dtypes), available = k.available != 0,
        unavailable_reason = unsafe_string(k.unavailable_reason),
        backward = [unsafe_string(C.fa_kernel_backward_name(index, i)) for i in 0:k.num_backward-1])
end

"""
    info([io])

Prints the versions and kernels in use: the lines to add to a report of an error.
"""
function info(io::IO = stdout)
    println(io, "LibFA.jl ", C.FA_VERSION_STRING, ", Julia ", VERSION, " (", Threads.nthreads(), " threads)")
    println(io, library_path(), ": ", build_info())
    for k in kernels()
        println(io, "  ", rpad(k.name, 18), k.available ? "available" : "no: $(k.unavailable_reason)", " (", k.compute_dtypes, ")")
    end
end

"Ends the library's own threads; the next call starts new ones. No call may be under way."
shutdown() = C.fa_shutdown()
