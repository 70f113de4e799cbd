# The C side's view of fa.h against ours: its structures and constants as the compiler has them, the library's exports; and
# each field and function reached through the functions that users call, by a list that must be complete.
#
#   julia interface.jl COMPILER READELF NM INCLUDE LIBRARY
include("support.jl")
const compiler, readelf, nm, include_folder, library = ARGS

"Structures (name => size, [(field, offset)]) and enumerators (name => value), from the compiler's debugging information."
function compiled_header()
    text = mktempdir() do folder
        write(joinpath(folder, "header.c"), "#include <fa.h>\nfa_forward_args args;\n")
        object = joinpath(folder, "header.o")
        run(`$compiler -g -fno-eliminate-unused-debug-types -I$include_folder -c $folder/header.c -o $object`)
        read(`$readelf --debug-dump=info $object`, String)
    end
    structures = Dict{String,Tuple{Int,Vector{Tuple{String,Int}}}}()
    enumerators = Dict{String,Int}()
    tag = owner = name = ""
    for line in split(text, '\n')
        if (m = match(r"\((DW_TAG_\w+)\)", line)) !== nothing
            tag, name = m[1], ""
            tag in ("DW_TAG_structure_type", "DW_TAG_union_type") && (owner = "")
        elseif (m = match(r"DW_AT_(\w+)\s*:.*?([^\s:]+)\s*$", line)) !== nothing
            attribute, value = m[1], m[2]
            attribute == "name" && (name = value)
            if tag == "DW_TAG_structure_type" && attribute == "byte_size" && startswith(name, "fa_")
                owner = name
                structures[owner] = (parse(Int, value), [])
            elseif tag == "DW_TAG_member" && attribute == "data_member_location" && owner != ""
                push!(structures[owner][2], (name, parse(Int, value)))
            elseif tag == "DW_TAG_enumerator" && attribute == "const_value"
                enumerators[name] = parse(Int, value)
            end
        end
    end
    return structures, enumerators
end

const structures, enumerators = compiled_header()
const exported = [m[1] for m in eachmatch(r" T (fa_\w+)", read(`$nm -D --defined-only $library`, String))]

@testset "structures, constants and functions are those of the compiler and of the library" begin
    @test sort(collect(keys(structures))) ==
          ["fa_append_args", "fa_backward_args", "fa_desc", "fa_forward_args", "fa_kernel", "fa_merge_args", "fa_tensor"]
    for (name, (size, fields)) in structures
        T = getfield(C, Symbol(name))
        @test sizeof(T) == size
        @test [(String(f), Int(fieldoffset(T, i))) for (i, f) in enumerate(fieldnames(T))] == fields
    end
    @test length(enumerators) > 20
    for (name, value) in enumerators
        @test getfield(C, Symbol(name)) == value
    end
    @test length(exported) > 15
    @test sort(exported) == sort([String(name) for (name, _) in C.functions])
    project = read(joinpath(@__DIR__, "..", "Project.toml"), String)
    @test occursin("version = \"$(C.FA_VERSION_STRING)\"", project)
end

# How each field is reached: keywords that change it. Fields that only initialisation or the library sets are named as such.
const q = randn(Float32, 16, 2, 4, 3)
const ints = Int32[1, 2, 3]
const float = randn(Float32, 4, 4, 2, 3)
const set_by_init = Dict("fa_desc" => ["struct_size"], "fa_forward_args" => ["struct_size", "reserved"],
    "fa_backward_args" => ["struct_size", "reserved"], "fa_merge_args" => ["struct_size"],
    "fa_append_args" => ["struct_size", "reserved"])
const desc_ways = Dict("device" => (device = :cpu,), "device_index" => (device_index = 1,), "dtype_q" => NamedTuple(),
    "dtype_kv" => (kv_type = Float16,), "dtype_v" => (v_type = LibFA.I8,),
    "dtype_k_rope" => (k_rope_type = Float16,), "head_dim_rope" => (head_dim_rope = 8,), "dtype_out" => (out_type = Float16,), "mask" => (causal = true,),
    "head_dim" => NamedTuple(), "head_dim_v" => (head_dim_v = 8,), "window_left" => (window = (3, -1),),
    "window_right" => (window = (-1, 3),), "attention_chunk" => (attention_chunk = 2,), "softmax_scale" => (softmax_scale = 2,),
    "softcap" => (softcap = 3,), "flags" => (batch_invariant = true,), "num_threads" => (num_threads = 2,),
    "parallel_for" => (julia_threads = true,), "parallel_for_user" => nothing)
const args_ways = Dict("q" => NamedTuple(), "k" => NamedTuple(), "v" => NamedTuple(), "out" => NamedTuple(),
    "lse" => (lse = randn(Float32, 4, 2, 3),),
    (String(name) => NamedTuple{(name,)}((shape === :pages ? Int32[0 1; 2 3] : shape === :per_head ? float[:, 1, 1, 1] : float,))
     for (name, shape) in pairs(LibFA.tensor_shapes))...,
    (String(name) => NamedTuple{(name,)}((ints,)) for name in keys(LibFA.array_entries))...,
    "mask" => (mask = Array(float .> 0.5),), "cu_seqlens_k" => (cu_seqlens_k = Int32[0, 1, 2, 3],),
    "num_seqs" => (cu_seqlens_q = ints,), "max_seqlen_q" => (max_seqlen_q = 4,), "max_seqlen_k" => (max_seqlen_k = 4,),
    "k_scale" => (k_scale = float,), "v_scale" => (v_scale = float,), "k_zero" => (k_zero = float,), "v_zero" => (v_zero = float,),
    "tree_mask" => (tree_mask = Int32[1 3 7 15],), "tree_depth" => (tree_depth = Int32[0, 1, 2, 3],), "k_rope" => (k_rope = float,),
    "num_splits" => (num_splits = 2,), "workspace" => (workspace = LibFA.workspace(64),),
    "workspace_size" => (workspace = LibFA.workspace(64),), "stream" => (stream = Ptr{Cvoid}(8),))

const rows = randn(Float32, 4, 2, 3)
const backward_ways = merge(Dict(name => way for (name, way) in args_ways
                                 if name ∉ ("lse", "num_splits", "k_scale", "v_scale", "k_zero", "v_zero", "tree_mask", "tree_depth", "k_rope")),
    Dict(name => NamedTuple() for name in ("lse", "dout", "dq", "dk", "dv", "dbias", "dsinks")),
    Dict("dlse" => (dlse = rows,), "delta" => (delta = rows,), "accumulate" => (accumulate = (:dq,),)))

const merge_ways = merge(Dict(name => NamedTuple() for name in ("outs", "lses", "num_parts", "out")), Dict("lse" => (lse = rows,),
    "mask" => (mask = rand(Bool, 4, 2, 3),), "flags" => (base_2 = true,)),
    Dict(name => args_ways[name] for name in ("workspace", "workspace_size", "stream")))

const append_ways = merge(Dict(name => NamedTuple() for name in ("k", "v", "k_cache", "v_cache")),
    Dict(String(name) => NamedTuple{(name,)}((form === :rows ? q : form === :factors ? float : form === :table ? float[:, :, 1, 1] : Int32[0 1; 2 3],))
         for (name, form) in pairs(LibFA.append_shapes)),
    Dict(String(name) => NamedTuple{(name,)}((zeros(Int32, 3 + more),)) for (name, more) in pairs(LibFA.append_entries)),
    Dict("num_seqs" => (cu_seqlens_new = ints,), "max_seqlen_new" => (max_seqlen_new = 4,), "flags" => (rotary_tail = true,)),
    Dict(name => args_ways[name] for name in ("workspace", "workspace_size", "stream")))

changed(a, b, field) = getfield(a, Symbol(field)) !== getfield(b, Symbol(field))

@testset "every field of fa_desc and of the structures of calls is reached" begin
    plain = LibFA.defaults(C.fa_desc_init, C.fa_desc)
    for (field, _) in structures["fa_desc"][2]
        field in set_by_init["fa_desc"] && continue
        @test haskey(desc_ways, field)
        way = get(desc_ways, field, nothing)
        # parallel_for_user is of parallel_for, which needs none here.
        way === nothing ? (@test field == "parallel_for_user") :
        (@test changed(LibFA.describe(Float32, 16; way...), plain, field))
    end
    for flag in ((deterministic = false,), (batch_invariant = true,), (bias_before_softcap = true,),
        (hadamard_k = true,), (hadamard_v = true,), (device_pointers = true,))
        @test changed(LibFA.describe(Float32, 16; flag...), plain, "flags")
    end
    plain = LibFA.defaults(C.fa_forward_args_init, C.fa_forward_args)
    for (field, _) in structures["fa_forward_args"][2]
        field in set_by_init["fa_forward_args"] && continue
        @test haskey(args_ways, field)
        way = get(args_ways, field, NamedTuple())
        @test changed(LibFA.arguments(similar(q), q, q, q; way...)[1], plain, field)
    end
    plain = LibFA.defaults(C.fa_backward_args_init, C.fa_backward_args)
    gradients = (dq = similar(q), dk = similar(q), dv = similar(q), dbias = similar(float), dsinks = similar(float[:, 1, 1, 1]))
    for (field, _) in structures["fa_backward_args"][2]
        field in set_by_init["fa_backward_args"] && continue
        @test haskey(backward_ways, field)
        way = get(backward_ways, field, NamedTuple())
        @test changed(LibFA.backward_arguments(gradients, q, q, rows, q, q, q; way...)[1], plain, field)
    end
    plain = LibFA.defaults(C.fa_merge_args_init, C.fa_merge_args)
    for (field, _) in structures["fa_merge_args"][2]
        field in set_by_init["fa_merge_args"] && continue
        @test haskey(merge_ways, field)
        way = get(merge_ways, field, NamedTuple())
        @test changed(LibFA.merge_arguments(similar(q), [q], [rows]; way...)[1], plain, field)
    end
    plain = LibFA.defaults(C.fa_append_args_init, C.fa_append_args)
    for (field, _) in structures["fa_append_args"][2]
        field in set_by_init["fa_append_args"] && continue
        @test haskey(append_ways, field)
        way = get(append_ways, field, NamedTuple())
        @test changed(LibFA.append_arguments(q, q, q, q; way...)[1], plain, field)
    end
    @test LibFA.append_arguments(q, q, q, q; rotary_interleaved = true)[1].flags == C.FA_APPEND_ROTARY_INTERLEAVED
    @test LibFA.append_arguments(q, q, q, q; compute_scales = true)[1].flags == C.FA_APPEND_COMPUTE_SCALES
    names = (:name, :device, :arch, :compute_dtypes, :available, :unavailable_reason, :backward)
    @test issetequal(keys(LibFA.kernels()[1]), names)
    fields = [name == :backward ? "num_backward" : String(name) for name in names]
    @test issetequal(fields, setdiff(first.(structures["fa_kernel"][2]), ["struct_size"]))
end

# How each function is reached. A way counts when it needs the function: without its address it fails by the function's name.
const calls = Dict(
    "fa_desc_init" => () -> LibFA.describe(Float32, 16), "fa_forward_args_init" => () -> LibFA.arguments(similar(q), q, q, q),
    "fa_create" => () -> LibFA.Op(Float32, 16), "fa_forward" => () -> attention(q, q, q),
    "fa_destroy" => () -> close(LibFA.Op(Float32, 16)),
    "fa_backward_args_init" => () -> LibFA.defaults(C.fa_backward_args_init, C.fa_backward_args),
    "fa_backward" => () -> attention_backward(q, q, rows, q, q, q),
    "fa_backward_workspace_size" =>
        () -> LibFA.backward_workspace_size(LibFA.Op(Float32, 16), (dq = similar(q),), q, q, rows, q, q, q),
    "fa_merge_args_init" => () -> LibFA.defaults(C.fa_merge_args_init, C.fa_merge_args),
    "fa_merge" => () -> attention_merge([q], [rows]),
    "fa_merge_workspace_size" => () -> LibFA.merge_workspace_size(LibFA.Op(Float32, 16), similar(q), [q], [rows]),
    "fa_append_args_init" => () -> LibFA.defaults(C.fa_append_args_init, C.fa_append_args),
    "fa_append" => () -> attention_append!(similar(q), similar(q), q, q),
    "fa_append_workspace_size" => () -> LibFA.append_workspace_size(LibFA.Op(Float32, 16), similar(q), similar(q), q, q),
    "fa_forward_workspace_size" => () -> LibFA.workspace_size(LibFA.Op(Float32, 16), similar(q), q, q, q),
    "fa_last_error" => LibFA.last_error, "fa_status_string" => () -> LibFA.status_string(0),
    "fa_op_kernel_name" => () -> LibFA.kernel(LibFA.Op(Float32, 16)), "fa_version" => LibFA.version,
    "fa_build_info" => LibFA.build_info, "fa_kernel_count" => LibFA.kernels, "fa_kernel_info" => LibFA.kernels,
    "fa_kernel_backward_name" => LibFA.kernels,
    "fa_set_log" => () -> LibFA.set_log(nothing), "fa_shutdown" => LibFA.shutdown)
# Arrays describe themselves, strides included: fa_tensor_init is for those who use LibFA.C.
const only_in_c = Dict("fa_tensor_init" => () -> C.fa_tensor_init(Ref(LibFA.absent), C_NULL, C.FA_F32, 1, 1, 1, 1))

@testset "every function is reached" begin
    ways = merge(calls, only_in_c)
    for name in exported
        @test haskey(ways, name)
        haskey(ways, name) || continue
        found = Dict(C.functions)[Symbol(name)]
        kept = found[]
        # Ops that are kept and finalizers must not meet the missing function.
        ops = name == "fa_destroy" ? LibFA.Op(Float32, 16) : nothing
        @test thrown(ways[name]) === nothing
        GC.gc()
        GC.enable(false)
        found[] = C_NULL
        error = thrown(name == "fa_destroy" ? () -> close(ops) : ways[name])
        found[] = kept
        GC.enable(true)
        @test error isa LibFA.LibraryError && occursin(name, error.text)
    end
end
