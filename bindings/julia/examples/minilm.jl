# Attention on real input: layers 0 and 5 of all-MiniLM-L6-v2 on the three paragraphs of the Gettysburg Address, packed one
# after another; compared with the exact results in the same folder.
#
#   julia --project=bindings/julia bindings/julia/examples/minilm.jl [FOLDER of examples/data]
using LibFA

"The array of a .npy file (little-endian, C order) with its dimensions reversed, as Julia counts them: nothing is moved."
function read_npy(path)
    bytes = read(path)
    header_end = 10 + Int(bytes[9]) + 256 * Int(bytes[10])
    header = String(bytes[11:header_end])
    T = Dict("<f2" => Float16, "<f4" => Float32, "<i4" => Int32)[match(r"'descr': '(.*?)'", header)[1]]
    shape = parse.(Int, filter(!isempty, strip.(split(match(r"'shape': \((.*?)\)", header)[1], ','))))
    return reshape(collect(reinterpret(T, bytes[header_end+1:end])), reverse(shape)...)
end

function main(folder)
    sequences = read_npy(joinpath(folder, "cu_seqlens.npy"))
    worst = 0.0
    for layer in (0, 5)
        q, k, v, wanted = (read_npy(joinpath(folder, "layer$(layer)_$name.npy")) for name in ("q", "k", "v", "out"))
        out = attention(q, k, v; cu_seqlens_q = sequences, cu_seqlens_k = sequences, out_type = Float32)
        off = maximum(abs.(out .- wanted))
        println("layer $layer: $(length(sequences) - 1) paragraphs, $(size(q, 3)) tokens, largest error $off")
        worst = max(worst, off)
    end
    return worst < 2e-3 ? 0 : 1
end

exit(main(get(ARGS, 1, joinpath(@__DIR__, "..", "..", "..", "examples", "data"))))
