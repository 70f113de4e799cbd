# Lends Julia's threads to the library through fa_desc.parallel_for. The library calls this from within fa_forward, on the thread
# and task of the caller. While its tasks run elsewhere the caller waits, so other tasks may run on its thread, which the
# library allows; but it must come back on that thread, for C code below it is. Hence it is sticky meanwhile: such a task never
# moves to another thread. Nothing may be thrown through C: interrupts wait until fa_forward has returned (`forward`).

const parallel_for_address = Ref{Ptr{Cvoid}}(C_NULL)

run_one(task::Ptr{Cvoid}, ctx::Ptr{Cvoid}, i::Int64) = ccall(task, Cvoid, (Ptr{Cvoid}, Int64), ctx, i)

function wait_for(task::Task)
    while !istaskdone(task)
        try
            wait(task)
        catch # an exception from another task comes at a bad time
        end
    end
end

function run_on_julia_threads(host::Ptr{Cvoid}, task::Ptr{Cvoid}, ctx::Ptr{Cvoid}, n::Int64)::Cvoid
    n > 0 || return
    me = current_task()
    sticky = me.sticky
    me.sticky = true
    started = Task[]
    next = 1
    if Threads.nthreads() > 1
        try
            sizehint!(started, n)
            while next < n
                i = next
                push!(started, Threads.@spawn run_one(task, ctx, i))
                next += 1
            end
        catch # no memory for more tasks: those that are not started are run here
        end
    end
    run_one(task, ctx, 0)
    while next < n
        run_one(task, ctx, next)
        next += 1
    end
    foreach(wait_for, started)
    me.sticky = sticky
    return
end
