# One type of exception for each fa_status, all with the text of fa_last_error(), which names the argument, its value, the
# expected values and a remedy.

"The exceptions of libfa. `text` is the library's."
abstract type Error <: Exception end

"The call can never work: an argument is wrong."
struct InvalidArgument <: Error
    text::String
end

"Legal, but nothing in this build or on this machine supports it."
struct Unsupported <: Error
    text::String
end

"The device asked for is not there."
struct NoDevice <: Error
    text::String
end

"Host or device memory is short; nothing was computed."
struct OutOfMemory <: Error
    text::String
end

"The device's driver failed."
struct DriverError <: Error
    text::String
end

"A status that this package does not know: the library is newer."
struct UnknownError <: Error
    text::String
end

function Base.showerror(io::IO, e::Error)
    print(io, "LibFA.", nameof(typeof(e)), ": ", e.text)
    occursin(r"(shape|stride)\[", e.text) &&
        print(io, "\n(C's dimensions 0 to 3 are batch, sequence, heads and head dimension: Julia's in the other order)")
end

"Throws the exception of a status but FA_OK. To be called on the task whose call returned it, at once."
@inline function check(status::C.fa_status)
    isempty_log() || deliver_messages()
    status == C.FA_OK || throw_status(status)
    return
end

@noinline function throw_status(status)
    text = last_error()
    status == C.FA_ERROR_INVALID_ARGUMENT && throw(InvalidArgument(text))
    status == C.FA_ERROR_UNSUPPORTED && throw(Unsupported(text))
    status == C.FA_ERROR_NO_DEVICE && throw(NoDevice(text))
    status == C.FA_ERROR_OUT_OF_MEMORY && throw(OutOfMemory(text))
    status == C.FA_ERROR_DRIVER && throw(DriverError(text))
    throw(UnknownError("$(status_string(status)) $status: $text"))
end

"The text of the calling thread's last error; \"\" when there was none."
last_error() = unsafe_string(C.fa_last_error())

"The name of a status: \"FA_OK\" for 0."
status_string(status::Integer) = unsafe_string(C.fa_status_string(status))
