# Arrays of CUDA.jl: where they live, their addresses, and the stream of the calling task.
module LibFACUDAExt

import CUDA, LibFA

LibFA.device(::CUDA.CuArray) = LibFA.C.FA_DEVICE_CUDA
LibFA.device_index(array::CUDA.CuArray) = Int32(CUDA.deviceid(CUDA.device(array)))
LibFA.default_stream(::CUDA.CuArray) = Ptr{Cvoid}(Base.unsafe_convert(CUDA.CUstream, CUDA.stream()))
LibFA.address(array::CUDA.CuArray) = Ptr{Cvoid}(UInt(pointer(array)))

end
