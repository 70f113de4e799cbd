# A stand-in for CUDA.jl: the names that LibFA's extension uses, over the host's memory.
module CUDA

struct CuPtr{T}
    address::UInt
end
Base.UInt(p::CuPtr) = p.address

struct CuArray{T,N} <: DenseArray{T,N}
    memory::Array{T,N}
    device::Int
end
CuArray(memory::Array) = CuArray(memory, 0)
Base.size(a::CuArray) = size(a.memory)
Base.strides(a::CuArray) = strides(a.memory)
Base.pointer(a::CuArray{T}) where {T} = CuPtr{T}(UInt(pointer(a.memory)))
Base.unsafe_convert(::Type{Ptr{T}}, a::CuArray{T}) where {T} = throw(ArgumentError("cannot take the CPU address of a CuArray"))
Base.similar(a::CuArray, ::Type{T}, size::Dims) where {T} = CuArray(Array{T}(undef, size), a.device)

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
stream() = CuStream(CUstream(UInt(0x1230)))

end
