# A stand-in for CUDA.jl, over the memory and the streams of the CUDA driver: the names that LibFA's extension uses.
__precompile__(false) # the other stand-in of this name is
module CUDA

import Libdl

struct CuPtr{T}
    address::UInt
end
Base.UInt(p::CuPtr) = p.address

"Calls a function of the driver, all of whose arguments are words."
function driver(name, arguments::UInt...)
    a, b, c = ntuple(i -> i <= length(arguments) ? arguments[i] : UInt(0), 3)
    status = ccall(Libdl.dlsym(Libdl.dlopen("libcuda.so.1"), name), Cint, (UInt, UInt, UInt), a, b, c)
    status == 0 || error("$name: $status")
    return
end

"The value that a function of the driver stores through its first argument."
function made(name, arguments::UInt...)
    result = Ref{UInt}(0)
    GC.@preserve result driver(name, UInt(Base.unsafe_convert(Ptr{UInt}, result)), arguments...)
    return result[]
end

"Makes a GPU the one that memory is allocated on."
function use(index::Int)
    driver(:cuInit, UInt(0))
    driver(:cuCtxSetCurrent, made(:cuDevicePrimaryCtxRetain, UInt(index)))
    stream_handle[] = Ptr{Nothing}(made(:cuStreamCreate, UInt(1))) # does not wait for the default one
    current[] = index
end
const current = Ref(0)
const stream_handle = Ref{Ptr{Nothing}}(C_NULL)

mutable struct CuArray{T,N} <: DenseArray{T,N}
    address::UInt
    size::NTuple{N,Int}
    device::Int
    function CuArray{T,N}(::UndefInitializer, size::NTuple{N,Int}) where {T,N}
        array = new(made(:cuMemAlloc_v2, UInt(max(prod(size) * sizeof(T), 4))), size, current[])
        return finalizer(a -> driver(:cuMemFree_v2, a.address), array)
    end
end
function CuArray(host::Array{T,N}) where {T,N}
    array = CuArray{T,N}(undef, size(host))
    GC.@preserve host driver(:cuMemcpyHtoD_v2, array.address, UInt(pointer(host)), UInt(sizeof(host)))
    return array
end
"The array in the host's memory, after the work on its stream."
function Base.Array(a::CuArray{T}) where {T}
    driver(:cuStreamSynchronize, UInt(stream_handle[]))
    host = Array{T}(undef, a.size)
    GC.@preserve host driver(:cuMemcpyDtoH_v2, UInt(pointer(host)), a.address, UInt(sizeof(host)))
    return host
end
Base.size(a::CuArray) = a.size
Base.strides(a::CuArray) = Base.size_to_strides(1, a.size...)
Base.pointer(a::CuArray{T}) where {T} = CuPtr{T}(a.address)
Base.unsafe_convert(::Type{Ptr{T}}, a::CuArray{T}) where {T} = throw(ArgumentError("cannot take the CPU address of a CuArray"))
Base.similar(::CuArray, ::Type{T}, size::NTuple{N,Int}) where {T,N} = CuArray{T,N}(undef, size)

struct CuDevice
    index::Int
end
device(a::CuArray) = CuDevice(a.device)
deviceid(d::CuDevice) = d.index

const CUstream = Ptr{Nothing}
struct CuStream
    handle::CUstream
end
Base.unsafe_convert(::Type{CUstream}, s::CuStream) = s.handle
stream() = CuStream(stream_handle[])

end
