# The library's messages. The function that the library calls only keeps them; they are handed on when the library has returned,
# where any Julia code may run, print or switch tasks.

const log_address = Ref{Ptr{Cvoid}}(C_NULL)
const log_function = Ref{Any}(nothing)
const messages = String[]
const message_count = Threads.Atomic{Int}(0)
const messages_lock = Threads.SpinLock()

function keep_message(user::Ptr{Cvoid}, text::Cstring)::Cvoid
    lock(messages_lock)
    push!(messages, unsafe_string(text))
    unlock(messages_lock)
    Threads.atomic_add!(message_count, 1)
    return
end

isempty_log() = message_count[] == 0

@noinline function deliver_messages()
    lock(messages_lock)
    taken = copy(messages)
    empty!(messages)
    message_count[] = 0
    unlock(messages_lock)
    # last_error() must survive: the function may call the library.
    foreach(text -> Base.invokelatest(log_function[], text), taken)
    return
end

"""
    set_log(f)

Calls `f(text)` with each message of the library (the environment variable FA_VERBOSE asks for them) instead of printing it
on the standard error; `nothing` restores that. To be called before other threads use the library.
"""
function set_log(f)
    log_function[] = f
    C.fa_set_log(f === nothing ? C_NULL : log_address[], C_NULL)
    return
end
