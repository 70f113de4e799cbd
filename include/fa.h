/*
 * libfa: fused attention (FlashAttention) as a plain C library.
 *
 *   out = softmax(scale * q k^T, masked) v          for every batch entry and head, exactly, without storing the scores
 *
 * This header is the library's specification, and the test suite checks what it states. Each promise carries a tag, a letter
 * and a number in brackets. The tests of the promise name its tag, which is never reused and never changes its meaning.
 *
 * The header is C99 (and C++) and needs no other library's types [F1]. Every function can be called through a
 * foreign-function interface: plain functions, scalars and pointers [F2].
 *
 *
 * THE THREE CALLS
 *
 *   fa_create     describes an attention once (types, head dimension, mask) and picks the best kernel of this machine;
 *   fa_forward    computes it for the tensors of one call, from any thread;
 *   fa_destroy    ends it.
 *
 * fa_backward computes its gradients, fa_merge combines results over different keys, and fa_append writes new keys and values
 * into a cache.
 *
 * A whole program, causal attention of 4 query heads over 2 key/value heads:
 *
 *   #include <fa.h>
 *   #include <stdio.h>
 *
 *   int main(void) {
 *     static float q[1 * 128 * 4 * 64], k[1 * 128 * 2 * 64], v[1 * 128 * 2 * 64], out[1 * 128 * 4 * 64];
 *     fa_desc desc;
 *     fa_desc_init(&desc, sizeof desc);
 *     desc.dtype_q = FA_F32;
 *     desc.head_dim = 64;
 *     desc.mask = FA_MASK_CAUSAL;
 *
 *     fa_op *op;
 *     if (fa_create(&desc, &op) != FA_OK) { fprintf(stderr, "%s\n", fa_last_error()); return 1; }
 *
 *     fa_forward_args args;
 *     fa_forward_args_init(&args, sizeof args);
 *     fa_tensor_init(&args.q, q, FA_F32, 1, 128, 4, 64);          (batch, sequence, heads, head dimension)
 *     fa_tensor_init(&args.k, k, FA_F32, 1, 128, 2, 64);
 *     fa_tensor_init(&args.v, v, FA_F32, 1, 128, 2, 64);
 *     fa_tensor_init(&args.out, out, FA_F32, 1, 128, 4, 64);
 *     if (fa_forward(op, &args) != FA_OK) fprintf(stderr, "%s\n", fa_last_error());
 *     fa_destroy(op);
 *     return 0;
 *   }
 *
 *   cc program.c $(pkg-config --cflags --libs fa)
 *
 *
 * THE MATHEMATICS
 *
 * For query i of a sequence of Sq queries and key j of its Sk keys, with the offset o defined below, in this order:
 *
 *   x = scale * dot(q[i], k[j])                                [F3]
 *   x = softcap * tanh(x / softcap)                            when softcap > 0 [F4]
 *   x = x + bias[i][j]                                         when a bias is given (before the softcap under
 *                                                              FA_FLAG_BIAS_BEFORE_SOFTCAP) [F5]
 *   x = x - slope * |i + o - j|                                when ALiBi slopes are given [F6]
 *   x = -inf                                                   when key j is masked for query i [F7]
 *   m = max_j x        l = sum_j exp(x - m) [+ exp(sink - m)]  the sink, when given, takes part in m too [F8]
 *   out[i] = sum_j exp(x - m) / l * v[j]       lse[i] = m + ln(l) [F9]
 *
 * Query i attends key j when all of these hold, where p = i + o is the position of the query among the keys:
 *
 *   causal       j <= p                                        FA_MASK_CAUSAL, FA_MASK_CAUSAL_TOP_LEFT [F10]
 *   window       p - window_left <= j <= p + window_right      each side only when it is not negative [F11]
 *   chunk        floor(j / attention_chunk) == floor(p / attention_chunk) [F12]
 *   mask         mask[i][j] is not zero [F13]
 *   bias         bias[i][j] is not -inf: an addend of -inf masks [F14]
 *
 * The offset o aligns queries with keys. It is
 *
 *   Sk - Sq       for FA_MASK_NONE and FA_MASK_CAUSAL: the last query sees the last key ("bottom-right") [F15];
 *   0             for FA_MASK_CAUSAL_TOP_LEFT [F16];
 *   q_offset      of the sequence, whatever the mask, when that is given [F17].
 *
 * For Sq = 2, Sk = 4:
 *
 *   FA_MASK_CAUSAL   1 1 1 .      FA_MASK_CAUSAL_TOP_LEFT   1 . . .
 *                    1 1 1 1                                1 1 . .
 *
 * Masking comes after everything else, so nothing masked leaks. The contents of a masked key and its value, NaN and
 * Inf included, never reach a query that does not attend the key [F18]. GPUs do not fetch keys and values that the mask, or a bias
 * of -inf, hides from a whole tile of queries, and no bit of a result depends on that [F204].
 *
 * A query with no key left has out = 0 and lse = -inf; with a sink, out = 0 and lse = the sink [F19]. A batch, sequence or
 * key length of 0 is legal [F20].
 *
 * NaN and infinity follow the formulas:
 *
 *   - A score of NaN or +inf makes out and lse of its query NaN [F21].
 *   - A score of -inf gives its key no weight. A query whose scores are all -inf has no key left [F22].
 *   - Only -inf masks: a bias of -FLT_MAX on every key of a query masks nothing [F23].
 *   - A value of NaN or infinity reaches every query that attends its key, however small its weight, and no other, and there
 *     its own column alone. The result is NaN where one such value is NaN or two infinities differ in sign, else that
 *     infinity [F24].
 *
 * All else is finite and within the bounds of docs/precision.md [F25], as long as
 *
 *   - the inputs are finite;
 *   - sum_d |q[d] k[d]|, x and each step towards it, and 256 n max |v| stay below FLT_MAX for every query and the n keys that
 *     it attends;
 *   - the result fits the type of out.
 *
 *
 * TENSORS
 *
 * An fa_tensor has the dimensions (batch, sequence, heads, dim) and a stride for each, counted in elements and of any sign.
 * So every layout is a matter of strides: BSHD, BHSD, a slice of a packed QKV, a reversed view [F26], or a broadcast
 * (stride 0, inputs only) [F27]. A unit stride in the last dimension is the fast path. Any other stride gives the right
 * result too [F28], at the cost of one gather of each element for every tile of queries that uses it.
 *
 * Nothing outside the described elements is read or written [F29]. Each element of out and of lse needs separate memory,
 * shared with no other tensor or array of the call and not with its workspace. A call is refused where a few comparisons of
 * addresses and strides show otherwise [F197]: of two tensors' outermost elements, of all elements of one with the memory of
 * another that has no gaps, and of steps along a tensor's dimensions that lead back to where they began. That a call is not
 * refused proves nothing. Tensors may interleave [F31].
 *
 * The number of key/value heads divides the number of query heads (MHA, GQA, MQA): query head h reads key/value head
 * h / (Hq / Hkv) [F32]. Lengths are below 2^31 [F33]. Sizes are 64-bit throughout [F34], up to 2^48 elements a tensor [F35].
 * Data and arrays are aligned to their elements [F36].
 *
 * Sequences of different lengths are described by one or more of:
 *
 *   cu_seqlens_q / k   packed ("varlen"): sequence b is rows cu_seqlens[b] .. cu_seqlens[b + 1] of a tensor of batch 1 [F37]
 *   seqused_q / k      only the first seqused[b] rows of sequence b are used [F38]; queries past them are neither read nor
 *                      written [F39]
 *   leftpad_k          the first leftpad_k[b] keys are not part of sequence b: its key 0 is the one after them, but seqused_k
 *                      counts them [F40]
 *   kv_batch_idx       the row of the K/V cache that batch entry b reads [F41]
 *   block_table        paged K/V: token t of sequence b is row t % page_size of page block_table[b][t / page_size] [F42]
 *
 * Positions (mask, window, ALiBi, the columns of bias and mask) count from each sequence's own first query and first
 * key [F43].
 *
 * With max_seqlen_* given, packed sequences take a GPU at most a tenth more instructions than a batch of sequences that are as
 * long as the longest, however many there are [F203].
 *
 *
 * QUANTISED KEYS AND VALUES
 *
 * k and v of fa_forward may be stored in fewer bits, in types that need not be the same (dtype_kv, dtype_v) [F245]. All of this
 * header holds for the numbers that the quantised values, called codes here, mean [F246], within the bounds of docs/precision.md:
 *
 *   (code - zero) * scale     FA_I8, FA_I4, FA_U4, FA_E4M3, FA_E5M2: of k_scale and k_zero, v_scale and v_zero
 *   code * scale              FA_Q8_0, FA_Q4_0: of a scale in each block of 32 elements, whose code of FA_Q4_0 is
 *                             that of its 4 bits less 8
 *
 * A tensor of scales or of zeros has the dimensions of k, or of v. Each may be 1, which repeats it, and the last is G, a number
 * of groups that divides D: element d has the scale of group d / (D / G) [F247]. A scale a tensor is (1, 1, 1, 1), one a head
 * (1, 1, Hkv, 1), one a token and head (B, Sk, Hkv, 1), one a channel of a head (1, 1, Hkv, D). Rows of a cache are chosen for
 * scales as they are for k: pages, packed sequences, kv_batch_idx and leftpad_k [F248]. Strides count the elements of the tensor
 * of scales, so that scales within the rows of the cache are a view of that memory [F249].
 *
 * Integer codes need a scale [F250]. Without one, those of FA_E4M3 and FA_E5M2 are the numbers themselves [F251]. A zero is 0
 * where it is absent, and may be any number [F252]. Neither belongs to blocks, or to types that are not quantised [F253].
 *
 * Shapes and strides of k and v count elements here too. Of FA_I4, FA_U4 and blocks, stride[3] is 1, and D and all other strides
 * are multiples of 2 or of 32 [F254]. Blocks are aligned to 2 bytes [F255].
 *
 * A scale or a zero that is NaN or infinite makes the elements that it belongs to NaN [F256]. Neither codes nor scales of a
 * masked key reach a query that does not attend it [F257].
 *
 * What F25 demands of products, it demands of |q[d] (code[d] - zero)| as well [F258]. fa_backward refuses these types [F259].
 * GPUs read all of them, and a v of another type than k, in calls with any other feature [F310].
 *
 *
 * ROTATED KEYS AND VALUES
 *
 * Codes with a common scale lose the small numbers of a row to the few channels that are far larger. A Hadamard matrix spreads
 * these over all channels. Under FA_FLAG_HADAMARD_K fa_append rotates keys, and under FA_FLAG_HADAMARD_V values, on their way into a
 * cache of any type. Each n consecutive elements x of a row become
 *
 *   H x / sqrt(n)              in f32, where n is the largest power of 2 that divides the row's number of elements [F305]
 *   H[i][j] = -1 or 1          -1 where i & j has an odd number of bits that are 1 (Sylvester's matrix; n = 1: no rotation)
 *
 * A row of keys has head_dim elements, or those before head_dim_rope: k_rope is left as it is [F306]. The rotary embedding comes before the
 * rotation; rounding, codes and computed scales come after it [F307].
 *
 * fa_forward of the same op reads such a cache. It rotates queries as keys are, which changes no score, and each row of the result
 * back, as the matrix is its own inverse: out, lse and all else are those of the unrotated keys and values within the bounds of
 * docs/precision.md [F308]. q_out of fa_append is not rotated by H, and results of fa_forward are merged as any others [F309].
 * What F25 demands of q, k and v, it demands of the rotated ones, too; the type of q holds rotated queries, and that of the cache
 * rotated keys and values. A NaN or an infinity in a row is one in all n elements of its block [F311]. F18 and F24 hold for the
 * numbers of the cache: one of those that is NaN or infinite reaches n columns of out [F312].
 *
 * Values that are a part of the keys are rotated with these: both flags are needed then, and the same n. Else fa_forward refuses a v
 * within the memory of k, or one that begins within a block [F313], and fa_append keys that hold the values, where FA_FLAG_HADAMARD_V is
 * set [F314]. fa_backward refuses both flags [F315].
 *
 *
 * KEYS IN TWO PARTS
 *
 * Caches of latent attention (DeepSeek's MLA) hold the last elements of a key, which carry the rotary embedding, in a wider type than
 * the others: 512 of FA_E4M3, with a scale for each group of 128, and 64 of FA_BF16 make up 656 bytes a token. With head_dim_rope
 * above 0 the last head_dim_rope elements of each key are those of k_rope, of type dtype_k_rope, and k has the ones before
 * them [F283]. k_scale and k_zero belong to k alone, whose groups of channels divide head_dim - head_dim_rope [F284]. Rows of
 * k_rope are chosen as those of k: pages, packed sequences, kv_batch_idx and leftpad_k [F285]. q is not divided.
 *
 * Values that are the first head_dim_v elements of the keys are a v with the memory and the scales of k. fa_append writes both
 * parts in one call: k into k_cache, in its type, and k_rope into k_rope_cache [F288]. The elements of a key that have pairs of the
 * rotary embedding must be in one of them: in k_rope under FA_APPEND_ROTARY_TAIL where rotary_dim is at most head_dim_rope [F289].
 * fa_backward refuses keys in two parts [F286].
 *
 *
 * TREES OF NEW TOKENS
 *
 * Speculative decoding verifies a tree of draft tokens in one call of fa_forward. The queries of a sequence are the tokens of its
 * tree, whose keys are in the cache already, and tree_mask has a bit for each of these keys. It takes the place of the causal
 * rule, here for query i and key j with the offset o of their sequence:
 *
 *   tree         j < o, or bit j - o of query i is 1           bit n of a query is bit n % 32 of its word n / 32 [F270]
 *
 * So keys before o, the prefix, are attended as usual. The Sq keys from o on are the new ones, one for each query of the sequence:
 * its last keys, or those from q_offset on [F271]. Bits past the sequence's own number of queries are ignored, and so are those of
 * keys that are not there; no query attends keys after the new ones [F272]. A token attends its own key only if its bit is 1 [F273].
 *
 * A window, a chunk and ALiBi use the positions i + o and j, as everywhere. Where tree_depth gives each new token its distance from
 * the root of its tree, the position of a query is o + depth instead, and so is that of its key [F274]. The columns of bias and
 * mask count keys in any case [F275]. On the CPU a tree of one path (query i attends new keys 0 .. i) gives the bits of the causal
 * mask [F276].
 *
 * Depths are 0 .. Sq - 1, which is checked on the CPU before anything is written [F277]. On a GPU they are not: other depths leave
 * the results of their own sequence undefined [F282]. fa_backward has no trees.
 *
 *
 * COMBINATIONS THAT ARE REFUSED
 *
 * Each of these is FA_ERROR_INVALID_ARGUMENT, and the text names both sides. Everything else combines freely [F44].
 *
 *   block_table with cu_seqlens_k             pages have no packed layout [F45]
 *   block_table with kv_batch_idx             the table's rows already choose the pages [F46]
 *   kv_batch_idx with cu_seqlens_k            a packed tensor has no batch rows to choose [F47]
 *   num_splits with FA_FLAG_BATCH_INVARIANT   the flag fixes the split [F48]
 *   FA_FLAG_BATCH_INVARIANT with FA_FLAG_NONDETERMINISTIC [F49]
 *   FA_FLAG_BIAS_BEFORE_SOFTCAP without a softcap [F50]
 *   tree_mask with FA_MASK_NONE               it takes the place of the causal rule [F279]
 *   tree_depth without tree_mask              the depth of a token is one in its tree [F280]
 *
 *
 * THE BACKWARD PASS
 *
 * fa_backward computes the gradients of q, k, v, bias and sinks from those of out and, where it is given, of lse. With x, o and
 * the attended keys as above, for query i and key j of a head, where the softcap made softcap * tanh(y / softcap) of y:
 *
 *   p = exp(x - lse[i])                                        never renormalised [F160]
 *   delta[i] = dot(dout[i], out[i])                            unless it is given [F161]
 *   dx = p * (dot(dout[i], v[j]) - delta[i] + dlse[i])         dlse[i] is 0 where it is absent [F162]
 *   dy = dx * (1 - tanh(y / softcap)^2)                        when softcap > 0, else dx [F163]
 *   dq[i] = scale * sum_j dy * k[j]                            [F164]
 *   dk[j] = scale * sum_i dy * q[i]    dv[j] = sum_i p * dout[i]    over all query heads that read the head of k and v [F165]
 *   dbias[i][j] = dx                                           (dy under FA_FLAG_BIAS_BEFORE_SOFTCAP); a dimension of 1 is
 *                                                              summed over its repetitions [F166]
 *   dsinks[h] = sum_i exp(sink - lse[i]) * (dlse[i] - delta[i])     over the rows of head h, those without keys too [F167]
 *
 * lse and out, or delta, may come from more keys than k has, as in ring attention: the result is then these keys' contribution
 * to the full gradient. Request dsinks from exactly one part, as it does not depend on the keys. That out and lse belong to the
 * inputs cannot be checked.
 *
 * A query whose lse is -inf had no key left: its dq is 0, and it adds to no other gradient, whatever dout holds [F168]. A
 * masked pair of a query and a key contributes exactly zero to all gradients, NaN and infinity included [F169]. A pair that is
 * attended and whose score is not -inf leaves no gradient finite to which the formulas give NaN or infinity [F320]. Where
 * inputs, out, lse and gradients given are finite, and so is each step above, results are within the bounds of
 * docs/precision.md [F170].
 *
 * Every used row of dq, dk and dv is written, 0 where nothing is attended [F171]. Rows that no sequence uses are neither read
 * nor written [F172]. Every element of dbias and dsinks is written, 0 where no score has a part in it [F173]. Entries of
 * kv_batch_idx that share a row of k are summed, in the order of the batch [F174]. A gradient that is absent is not
 * computed [F175].
 *
 * Gradients have types of their own [F176] and are laid out as out is: they overlap nothing else of the call, but may be
 * interleaved, as slices of one packed gradient [F177]. Bits of accumulate add them to their tensors' contents [F178], which
 * is for FA_F32 alone [F179].
 *
 * Refused, as FA_ERROR_INVALID_ARGUMENT: block_table, as there is no backward pass for a paged cache [F180]; dbias without
 * bias [F181]; dsinks without sinks [F182]; neither out nor delta [F183]; and the combinations above that both structures can
 * have. A call runs where its memory is, as fa_forward's do [F184]. A build without kernels for it (FA_BACKWARD=OFF)
 * refuses it as FA_ERROR_UNSUPPORTED [F185].
 *
 *
 * MERGING PARTIAL RESULTS
 *
 * fa_merge combines results of fa_forward for the same queries over different keys (a prefix that sequences share, parts of a
 * ring, splits of a cache) into the result over all of these keys. For each row, a query and a head, of parts 0 .. n - 1:
 *
 *   m = max_p lse[p]      w[p] = exp(lse[p] - m)      s = sum_p w[p]
 *   out = sum_p w[p] / s * out[p]      lse = m + ln(s) [F207]
 *
 * Under FA_MERGE_BASE_2 every lse, read or written, is a logarithm to base 2, and 2^ and log2 take the place of exp and
 * ln [F208]. A sink is in the lse of each part that had it: give it to one part alone.
 *
 * A part whose lse is -inf had no key left: it has no weight, and its out, whatever that holds, is not read [F209]. Where all
 * parts are such, out = 0 and lse = -inf [F210]. An lse of NaN or +inf makes out and lse of its row NaN [F211]. An element of
 * NaN or infinity in the out of a part with keys reaches the row, however small the part's weight, as values do in
 * attention [F212]. A row that mask excludes is that of part 0, as if there were no other [F213].
 *
 * Parts are added in their order, and a row's bits depend on its own parts alone: not on batch, heads, other rows or threads [F214].
 * Where one part alone has keys, out and lse are that part's, bit for bit where the types agree [F215]. All else is within the
 * bounds of docs/precision.md as long as the parts' out are finite and 64 max |out| stays below FLT_MAX.
 *
 * Parts may differ in type and strides, not in shape [F216]. out may be exactly outs[0], and lse exactly lses[0]: the same data,
 * strides and type. Any other memory that is shared is refused as everywhere [F217].
 *
 *
 * APPENDING TO A CACHE
 *
 * fa_append writes the keys and values of new tokens into a cache, in the cache's type, which fa_forward of the same op then
 * reads. New token i of sequence b goes to
 *
 *   row cache_seqlens[b] + i     of entry b of the cache, or of entry kv_batch_idx[b] [F220]
 *   the same row, of pages       row t is row t % page_size of page block_table[b][t / page_size] [F221]
 *   slot_mapping[b][i]           row s % page_size of page s / page_size; where it is negative, the token is skipped [F222]
 *
 * cache_seqlens counts left padding, as seqused_k does; where it is absent, rows begin at 0 [F223]. New sequences of different
 * lengths are packed (cu_seqlens_new) or padded (seqused_new) [F224]. Only the rows of new tokens are written [F225]. Numbers
 * keep their bits where the cache has their type and they are not rotated; else they are rounded to nearest, ties to even [F226].
 *
 * With rotary_cos and rotary_sin, k is rotated on its way, and q into q_out. Row p of the tables, for the token's position p,
 * has the cosine and the sine of each pair (x, y) of a head's elements, which becomes
 *
 *   x cos - y sin,  x sin + y cos                              in f32, rounded once [F227]
 *
 * Pair j of the first rotary_dim elements of a row consists of elements j and j + rotary_dim / 2 [F228], or of 2 j and 2 j + 1
 * under FA_APPEND_ROTARY_INTERLEAVED [F229]. Under FA_APPEND_ROTARY_TAIL it is the last rotary_dim elements that have the
 * pairs [F230]. Elements without a pair are only converted.
 *
 * Without positions, a token is at its place in the sequence, cache_seqlens[b] + i - leftpad_k[b] [F231]. Row i of q is at
 * q_positions, else at positions, else where new token i is or would be [F232]. A table with a row for each token of the call,
 * and positions that count them, give any other embedding.
 *
 * No two new tokens may have the same place in the cache. On the CPU such a place holds the later token afterwards [F233]; on
 * CUDA, where nothing can check it, it may hold either. On the CPU the contents of arrays, of positions, slot_mapping and
 * block_table are checked before anything is written [F234]. On CUDA a call is one launch [F235], and contents out of range have
 * undefined results there.
 *
 * Refused, as FA_ERROR_INVALID_ARGUMENT: slot_mapping with block_table or kv_batch_idx, as slots already choose the pages [F236];
 * block_table with kv_batch_idx [F237]; one of rotary_cos and rotary_sin, of q and q_out, or of v and v_cache without the
 * other [F238]; q, positions or FA_APPEND_ROTARY_* without rotary_cos [F239]; rotary_cos with slot_mapping where neither
 * positions nor cache_seqlens say where tokens are [F240].
 *
 *
 * APPENDING TO A QUANTISED CACHE
 *
 * Where the cache is quantised, fa_append writes codes. That of a number x, which is rotated before and has the precision of
 * f32 then, is
 *
 *   x / scale + zero     of FA_I8, FA_I4, FA_U4, FA_E4M3, FA_E5M2: computed in f32 and rounded to the nearest code, ties to
 *                        even, the largest or smallest one where it is beyond all [F290]
 *   as in ggml           of FA_Q8_0, FA_Q4_0: blocks have the bits, scales included, that quantize_row_q8_0_ref and
 *                        quantize_row_q4_0_ref of ggml give them [F291], except as in F297
 *
 * k_scale, v_scale, k_zero and v_zero are those of fa_forward on this cache, which reads (code - zero) * scale. The row of the
 * cache that a token goes to chooses theirs [F292]. The code of NaN is NaN, and of integers 0; where the scale is 0, NaN or
 * infinite, all codes are 0 [F293].
 *
 * Under FA_APPEND_COMPUTE_SCALES the call computes scales and zeros and writes them, one for each new token, head and group of
 * channels, and no others [F294]:
 *
 *   scale = max |x| / c                                      c is the largest code: 127 of FA_I8, 7 of FA_I4, 448 of FA_E4M3,
 *                                                            57344 of FA_E5M2 [F295]
 *   scale = max(max x / 15 - min x / 15, max |x| / 256)      of FA_U4, which needs a zero; the others have none [F296]
 *   zero = -min x / scale
 *
 * Each is rounded to the type of its tensor, and codes are those for the rounded one. A NaN or an infinity among the numbers
 * makes their computed scale NaN, that of a block too, and their codes 0 [F297]. Numbers that are all 0 have the scale 0, the
 * zero 0 and codes 0: they are read as 0 [F298].
 *
 * Scales may lie within the rows of the cache, next to their codes: memory is shared only where bytes are [F299].
 *
 * Refused, as FA_ERROR_INVALID_ARGUMENT: integer codes without a scale, and any but blocks under the flag [F300]; scales or zeros
 * of blocks, or of a cache that is not quantised [F301]; under the flag, tensors of scales whose first three dimensions are not
 * those of the cache [F302], FA_U4 without a zero, a zero of another type [F303], and a cache that is not quantised at all [F304].
 *
 *
 * THREADS, MEMORY, ERRORS
 *
 * Any function may be called from any thread at any time, also on the same fa_op [F51], with two exceptions: fa_destroy must
 * come after all other uses of its op, and fa_set_log before other threads use the library. Results are bitwise the same from
 * run to run and for every number of threads unless FA_FLAG_NONDETERMINISTIC is set [F52].
 *
 * No call depends on the floating-point environment of a thread, or changes it: on every thread the library computes in the
 * default environment (rounding to nearest, subnormal numbers kept, no exception trapped), and then restores the control word
 * and the exception flags. parallel_for and fa_log run in their caller's environment [F195]. No call changes errno, and no
 * locale changes the texts and numbers that the library reads and writes [F196].
 *
 * On the CPU the work of a call follows the rows that its sequences have and the keys that these attend [F199]. It grows no
 * faster than the number of sequences, of heads, or of entries of kv_batch_idx that share a row. It does not follow the length
 * of a cache, or the width of block_table, of which a window, a chunk or q_offset leaves few keys; entries of block_table for
 * keys far from any that is attended are not looked at. Blocks of keys that a mask or a bias of -inf takes from whole tiles of
 * queries cost no more than finding that out. A chunk, or a window that is closed on both sides (a causal mask closes the
 * right one), bounds what splits add to fa_forward's workspace: a longer cache needs no more [F200].
 *
 * A function that can fail returns an fa_status. fa_last_error() then says which argument is wrong, its value, the expected
 * values and a remedy [F53]. No function aborts or throws [F54]. None prints to the standard output [F55].
 * After an error that is found before the work begins (any but FA_ERROR_DRIVER), no output has been written [F56].
 *
 * On a GPU each call asks the driver where each of its pointers leads. Under FA_FLAG_DEVICE_POINTERS it does not [F317]: the
 * caller promises that all memory of the call, its workspace included, is that of the current context, or other memory that
 * the device may use at these addresses (managed, or registered where both addresses are one). The call runs in the current
 * context if it is one of the op's device, else in the device's primary one, which the memory is of then; it is enqueued even
 * where all of the memory is the host's [F318]. Its results have the bits that they have without the flag [F319]. No call
 * reports a broken promise: the device faults, which surfaces on the stream and ends the context, or reads other memory.
 *
 * Environment variables, read through secure_getenv [F57] and overruled by the API:
 *
 *   FA_VERBOSE=dispatch     log which kernel was chosen and why each better one was not (all: everything) [F58]. Any other
 *                           value but 0, off, no, false and none means dispatch
 *   FA_FORCE_KERNEL=NAME    use this kernel (fa_kernel_info lists the names) or fail [F59]. Calls that it cannot run fail
 *                           with FA_ERROR_UNSUPPORTED [F154]
 *   FA_MAX_ARCH=ARCH        skip kernels for anything newer than this ISA or SM (avx2, sm_80) [F60]
 *   FA_NUM_THREADS=N        the default number of CPU threads [F61]
 *   FA_KERNEL_PATH=FOLDER   take this build's GPU kernels from the files there [F62]. They are code that runs with the
 *                           rights of the process: name no folder that others can write to
 *
 *
 * STABILITY
 *
 * Every structure but fa_tensor starts with its own size and only ever grows at its end [F63]; initialise it with its
 * function. fa_tensor is frozen. A caller built against an older or a newer header works: fields that it lacks behave as
 * before [F64], and fields that the library does not know must be zero [F65]. A field appended after the first release means
 * "as before" when it is zero.
 *
 * Symbols are versioned (FA_0) [F66]. The library's soname is libfa.so.FA_ABI_VERSION [F67].
 */
#ifndef LIBFA_FA_H
#define LIBFA_FA_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && !defined(__TINYC__)
#define FA_API __attribute__((visibility("default")))
#else
#define FA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define FA_VERSION_MAJOR 0
#define FA_VERSION_MINOR 1
#define FA_VERSION_PATCH 0
#define FA_VERSION_STRING "0.1.0"
#define FA_ABI_VERSION 0

/* ---- constants ------------------------------------------------------------------------------------------------------- */

/* The result of a function. Values are fixed forever [F68]; treat one that you do not know as an error. */
typedef int32_t fa_status;
enum {
  FA_OK = 0,
  FA_ERROR_INVALID_ARGUMENT = 1, /* the call can never work: fa_last_error() names the argument [F69] */
  FA_ERROR_UNSUPPORTED = 2,      /* legal, but nothing in this build or on this machine supports it [F70] */
  FA_ERROR_NO_DEVICE = 3,        /* the device asked for is not there: no driver, no such index, no kernel image [F71] */
  FA_ERROR_OUT_OF_MEMORY = 4,    /* host or device memory is short; nothing was computed [F72] */
  FA_ERROR_DRIVER = 5            /* the device's driver failed: its own name and text are in fa_last_error() [F73] */
};

/* Element types. FA_DTYPE_DEFAULT means the type that the field's comment names [F74]. */
typedef int32_t fa_dtype;
enum {
  FA_DTYPE_DEFAULT = 0,
  FA_F32 = 1,  /* IEEE 754 binary32 */
  FA_F16 = 2,  /* IEEE 754 binary16 */
  FA_BF16 = 3, /* bfloat16: the upper half of a binary32 */
  FA_BOOL = 4, /* one byte, true when not zero [F75] */
  FA_I32 = 5,  /* 32-bit signed integer */
  FA_I64 = 6,  /* 64-bit signed integer: positions and slots alone */

  FA_I8 = 7,    /* from here on, codes of quantised k and v: an 8-bit signed integer [F261] */
  FA_E4M3 = 8,  /* float8_e4m3fn: 4 bits of exponent, 3 of fraction; no infinity; NaN is 0x7f and 0xff [F262] */
  FA_E5M2 = 9,  /* float8_e5m2: the upper half of a binary16 [F263] */
  FA_I4 = 10,   /* two 4-bit signed integers a byte, the first one in its low half [F264] */
  FA_U4 = 11,   /* the same, unsigned */
  FA_Q8_0 = 12, /* ggml's block_q8_0, 34 bytes: a binary16 scale, then 32 8-bit signed integers [F265] */
  FA_Q4_0 = 13  /* ggml's block_q4_0, 18 bytes: a binary16 scale, then 16 bytes; byte i has element i in its low half and
                   element 16 + i in its high half [F266] */
};

typedef int32_t fa_device;
enum {
  FA_DEVICE_AUTO = 0, /* the GPU where the tensors live on one, else the CPU [F76] */
  FA_DEVICE_CPU = 1,
  FA_DEVICE_CUDA = 2
};

typedef int32_t fa_mask;
enum {
  FA_MASK_NONE = 0,
  FA_MASK_CAUSAL = 1,         /* aligned bottom-right: the last query attends every key */
  FA_MASK_CAUSAL_TOP_LEFT = 2 /* aligned top-left: query 0 attends key 0 only */
};

/* fa_desc.flags, any of these or-ed together. */
enum {
  FA_FLAG_NONDETERMINISTIC = 1,  /* an engine may trade bitwise reproducibility from run to run for speed */
  FA_FLAG_BATCH_INVARIANT = 2,   /* a query's bits depend on its own row, keys and mask alone: not on batch, padding or
                                    neighbours [F77], nor on how many queries the call holds (prefill and decode
                                    agree) [F78]. dq, dk and dv of a sequence do not depend on other sequences [F186] */
  FA_FLAG_BIAS_BEFORE_SOFTCAP = 4, /* x = scale * q.k + bias; x = softcap * tanh(x / softcap) [F79] */
  FA_FLAG_HADAMARD_K = 8,          /* fa_append rotates k by a Hadamard matrix, fa_forward q */
  FA_FLAG_HADAMARD_V = 16,         /* fa_append rotates v by a Hadamard matrix, fa_forward out back */
  FA_FLAG_DEVICE_POINTERS = 32     /* every pointer of a call is one that the device may use; with FA_DEVICE_CUDA alone [F316] */
};

/* fa_backward_args.accumulate, any of these or-ed together: the gradient is added to its tensor's contents. */
enum {
  FA_ACCUMULATE_DQ = 1,
  FA_ACCUMULATE_DK = 2,
  FA_ACCUMULATE_DV = 4,
  FA_ACCUMULATE_DBIAS = 8,
  FA_ACCUMULATE_DSINKS = 16
};

/* fa_merge_args.flags. */
enum {
  FA_MERGE_BASE_2 = 1 /* every lse, read or written, is a logarithm to base 2 */
};

/* fa_append_args.flags, any of these or-ed together. */
enum {
  FA_APPEND_COMPUTE_SCALES = 1,     /* scales and zeros of new tokens are computed and written; else they are read */
  FA_APPEND_ROTARY_INTERLEAVED = 2, /* pairs are neighbours (GPT-J's rotary embedding); else halves apart (GPT-NeoX's) */
  FA_APPEND_ROTARY_TAIL = 4         /* the last rotary_dim elements of a row are rotated, not the first */
};

/* Limits. */
enum {
  FA_MAX_HEAD_DIM = 576,  /* of q, k and of v [F80] */
  FA_MAX_THREADS = 1024,
  FA_MAX_SPLITS = 1024,
  FA_MAX_PARTS = 32 /* of fa_merge */
};

/* ---- structures ------------------------------------------------------------------------------------------------------ */

/* An attention, ready to run. Immutable; shared freely between threads. */
typedef struct fa_op fa_op;

/* A view of memory that the caller owns. Frozen: it never grows [F81]. data may be NULL where the tensor has no
 * elements [F82]. Where the field that holds it is optional, NULL means absent. */
typedef struct fa_tensor {
  void *data;        /* the element at index (0, 0, 0, 0) */
  int64_t shape[4];  /* (batch, sequence, heads, dim), or as the field says */
  int64_t stride[4]; /* in elements; any sign; 0 repeats (inputs only) */
  fa_dtype dtype;    /* FA_DTYPE_DEFAULT: the type that the field names */
  int32_t reserved;  /* 0 [F83] */
} fa_tensor;

/* The host's own thread pool. It must call task(ctx, i) exactly once for every i in [0, n), on any thread, in any order,
 * possibly one after another, and return when all calls have returned. Tasks never wait for one another [F84].
 * n <= fa_desc.num_threads [F85]. user is fa_desc.parallel_for_user. */
typedef void (*fa_task)(void *ctx, int64_t i);
typedef void (*fa_parallel_for)(void *user, fa_task task, void *ctx, int64_t n);

/* An attention, for the life of the op. Initialise with fa_desc_init, then set dtype_q and head_dim at least. */
typedef struct fa_desc {
  size_t struct_size;      /* set by fa_desc_init */
  fa_device device;        /* FA_DEVICE_AUTO */
  int32_t device_index;    /* 0; which GPU [F86] */
  fa_dtype dtype_q;        /* required: FA_F32, FA_F16 or FA_BF16 [F87] */
  fa_dtype dtype_kv;       /* FA_DTYPE_DEFAULT: as dtype_q. May differ from it: an f16 or bf16 cache under f32 queries [F88] */
  fa_dtype dtype_out;      /* FA_DTYPE_DEFAULT: as dtype_q */
  fa_mask mask;            /* FA_MASK_NONE */
  int64_t head_dim;        /* required: of q and k, 1 .. FA_MAX_HEAD_DIM */
  int64_t head_dim_v;      /* 0: as head_dim; of v and out, 1 .. FA_MAX_HEAD_DIM [F89] */
  int64_t window_left;     /* -1: open; keys before the query's position that it attends */
  int64_t window_right;    /* -1: open; keys after it (a causal mask allows none whatever this says [F90]) */
  int64_t attention_chunk; /* 0: none; queries attend keys of their own chunk of this many positions */
  float softmax_scale;     /* 0: 1 / sqrt(head_dim); finite [F91] */
  float softcap;           /* 0: none; positive, finite */
  uint32_t flags;          /* 0; FA_FLAG_* */
  int32_t num_threads;     /* 0: FA_NUM_THREADS, else the CPUs that the process may use [F92]; at most FA_MAX_THREADS */
  fa_parallel_for parallel_for; /* NULL: the library's own threads [F93] */
  void *parallel_for_user;      /* NULL; passed to parallel_for */
  fa_dtype dtype_v;             /* FA_DTYPE_DEFAULT: as dtype_kv, which is k's alone where this is given */
  fa_dtype dtype_k_rope;        /* FA_DTYPE_DEFAULT: as dtype_q; FA_F32, FA_F16 or FA_BF16 */
  int64_t head_dim_rope;        /* 0; 0 .. head_dim - 1: the last elements of keys, which k_rope has */
} fa_desc;

/* One call. Initialise with fa_forward_args_init, then set q, k, v and out at least.
 *
 * B: sequences. Sq, Sk: rows of q and of k (bias and mask: of the longest sequence, max_seqlen_* where that is given).
 * Hq, Hkv: heads. D, Dv: head_dim, head_dim_v.
 *
 * Pointers to int32_t are arrays in memory that the op's device can reach, of B entries unless said otherwise. On the CPU
 * their contents are checked [F94]. On CUDA the host never reads them [F95], so contents out of range cannot be reported. */
typedef struct fa_forward_args {
  size_t struct_size; /* set by fa_forward_args_init */

  fa_tensor q;   /* (B, Sq, Hq, D), dtype_q; packed: (1, total_q, Hq, D) [F96] */
  fa_tensor k;   /* (B, Sk, Hkv, D), dtype_kv; packed: (1, total_k, Hkv, D); paged: (pages, page_size, Hkv, D); D less
                    head_dim_rope */
  fa_tensor v;   /* as k, with Dv for D; dtype_v */
  fa_tensor out; /* (B, Sq, Hq, Dv), dtype_out; packed: (1, total_q, Hq, Dv); no stride 0, no overlap with any input [F97] */

  fa_tensor lse;          /* absent; written: (B, Hq, Sq, 1), packed (1, Hq, total_q, 1); FA_F32; natural logarithm, sink included */
  fa_tensor bias;         /* absent; (B, Hq, Sq, Sk), each may be 1 (repeated) [F98]; FA_F32 (default), FA_F16, FA_BF16 */
  fa_tensor mask;         /* absent; shape as bias; FA_BOOL: true = attend */
  fa_tensor alibi_slopes; /* absent; (B or 1, Hq, 1, 1); FA_F32 */
  fa_tensor sinks;        /* absent; (B or 1, Hq, 1, 1); FA_F32: a logit per head in the softmax's denominator */
  fa_tensor block_table;  /* absent; (B, pages per sequence, 1, 1); FA_I32; entries past the used pages are never read [F99] */

  const int32_t *cu_seqlens_q; /* NULL; num_seqs + 1 entries: the first 0 or more, never falling, the last at most total_q [F100] */
  const int32_t *cu_seqlens_k; /* NULL; the same for k and v */
  const int32_t *seqused_q;    /* NULL; 0 .. rows of the sequence [F101] */
  const int32_t *seqused_k;    /* NULL; 0 .. keys of the sequence, leftpad_k included [F102] */
  const int32_t *leftpad_k;    /* NULL; 0 .. used keys of the sequence [F103] */
  const int32_t *kv_batch_idx; /* NULL; 0 .. shape[0] of k - 1 [F104] */
  const int32_t *q_offset;     /* NULL; position of query 0 relative to key 0, of any sign [F105] */

  int64_t num_seqs;     /* 0; required with cu_seqlens_*: the number of sequences B (0 only where q has no rows) [F106] */
  int64_t max_seqlen_q; /* 0: unknown (all rows of q); else no sequence has more queries [F107] */
  int64_t max_seqlen_k; /* 0: unknown (all rows of k, or table width x page size); else no sequence has more keys */

  int32_t num_splits; /* 0: chosen; else the keys of each sequence are worked on in this many parts, at most FA_MAX_SPLITS [F108] */
  int32_t reserved;   /* 0 */

  void *workspace;       /* NULL: allocated by the call; else fa_forward_workspace_size bytes, 256-byte aligned [F109] */
  size_t workspace_size; /* 0; bytes behind workspace */
  void *stream;          /* NULL; the CUDA stream (CUstream, cudaStream_t) [F110]; ignored on the CPU [F111] */

  fa_tensor k_scale; /* absent; (B, Sk, Hkv, G), each may be 1 (repeated), or as k where that is packed or paged; G divides D;
                        FA_F32 (default), FA_F16, FA_BF16; of quantised k alone [F267] */
  fa_tensor v_scale; /* absent; as k_scale, for v and Dv */
  fa_tensor k_zero;  /* absent; as k_scale; its G may differ */
  fa_tensor v_zero;  /* absent; as k_zero, for v and Dv */

  fa_tensor tree_mask;  /* absent; (B or 1, Hq or 1, Sq, W), packed: (1, Hq or 1, total_q, W): W words of 32 bits, ceil(Sq / 32) of the
                           longest sequence; FA_I32 [F281] */
  fa_tensor tree_depth; /* absent; (B or 1, Sq, 1, 1), packed: (1, total_q, 1, 1); FA_I32 */

  fa_tensor k_rope; /* absent; required with head_dim_rope: as k, with head_dim_rope for D; dtype_k_rope [F287] */
} fa_forward_args;

/* One call of the backward pass. Initialise with fa_backward_args_init, then set q, k, v, out, lse, dout, and the gradients that
 * are wanted. Inputs of fa_forward are given as they were to fa_forward; letters as in fa_forward_args. A gradient that is
 * absent is not computed. */
typedef struct fa_backward_args {
  size_t struct_size; /* set by fa_backward_args_init */

  fa_tensor q;    /* as fa_forward_args.q */
  fa_tensor k;    /* as fa_forward_args.k */
  fa_tensor v;    /* as fa_forward_args.v */
  fa_tensor out;  /* as fa_forward_args.out, which fa_forward wrote; when delta is given, it is not read and may be absent */
  fa_tensor lse;  /* as fa_forward_args.lse, which fa_forward wrote; FA_F32 */
  fa_tensor dout; /* the gradient of out, shaped as out; dtype_out (default), FA_F32, FA_F16, FA_BF16 */

  fa_tensor dq; /* absent; written: shaped as q; dtype_q (default), FA_F32, FA_F16, FA_BF16 */
  fa_tensor dk; /* absent; written: shaped as k; dtype_kv (default), FA_F32, FA_F16, FA_BF16 */
  fa_tensor dv; /* absent; written: shaped as v; dtype_v (default), FA_F32, FA_F16, FA_BF16 */

  fa_tensor dlse;         /* absent; the gradient of lse, shaped as lse; FA_F32 */
  fa_tensor delta;        /* absent; the dot product of dout and out of each row, shaped as lse; FA_F32 */
  fa_tensor bias;         /* absent; as fa_forward_args.bias */
  fa_tensor mask;         /* absent; as fa_forward_args.mask */
  fa_tensor alibi_slopes; /* absent; as fa_forward_args.alibi_slopes: constants, without a gradient */
  fa_tensor sinks;        /* absent; as fa_forward_args.sinks; read for dsinks alone */
  fa_tensor block_table;  /* must be absent */
  fa_tensor dbias;        /* absent; written; (B, Hq, Sq, Sk), each may be 1 (summed); bias' type (default), FA_F32 */
  fa_tensor dsinks;       /* absent; written; (B or 1, Hq, 1, 1), 1: summed; FA_F32 */

  const int32_t *cu_seqlens_q; /* NULL; this and the fields after it as in fa_forward_args */
  const int32_t *cu_seqlens_k; /* NULL */
  const int32_t *seqused_q;    /* NULL */
  const int32_t *seqused_k;    /* NULL */
  const int32_t *leftpad_k;    /* NULL */
  const int32_t *kv_batch_idx; /* NULL */
  const int32_t *q_offset;     /* NULL */

  int64_t num_seqs;     /* 0; this and the next two as in fa_forward_args */
  int64_t max_seqlen_q; /* 0 */
  int64_t max_seqlen_k; /* 0 */

  uint32_t accumulate; /* 0; FA_ACCUMULATE_*, for gradients of FA_F32 alone; nothing for one that is absent */
  int32_t reserved;    /* 0 */

  void *workspace;       /* NULL: allocated by the call; else fa_backward_workspace_size bytes, 256-byte aligned */
  size_t workspace_size; /* 0; bytes behind workspace */
  void *stream;          /* NULL; as in fa_forward_args */
} fa_backward_args;

/* One merge. Initialise with fa_merge_args_init, then set outs, lses, num_parts and out. The op gives device, threads, dtype_out and
 * head_dim_v. Letters as in fa_forward_args; packed results are one sequence of total_q rows. */
typedef struct fa_merge_args {
  size_t struct_size; /* set by fa_merge_args_init */

  const fa_tensor *outs; /* num_parts of them, in host memory, as fa_forward wrote them: shaped as out; dtype_out (default), FA_F32,
                            FA_F16, FA_BF16. Both arrays are read during the call alone [F218] */
  const fa_tensor *lses; /* num_parts of them, in host memory: (B, Hq, Sq, 1); FA_F32 */
  int32_t num_parts;     /* 1 .. FA_MAX_PARTS [F219] */
  uint32_t flags;        /* 0; FA_MERGE_BASE_2 */

  fa_tensor out;  /* written; (B, Sq, Hq, Dv), dtype_out; packed: (1, total_q, Hq, Dv) */
  fa_tensor lse;  /* absent; written: (B, Hq, Sq, 1); FA_F32 */
  fa_tensor mask; /* absent; (B or 1, Hq or 1, Sq, 1); FA_BOOL: true = merge, false = the row of part 0 */

  void *workspace;       /* NULL; this version needs none */
  size_t workspace_size; /* 0; bytes behind workspace */
  void *stream;          /* NULL; as in fa_forward_args */
} fa_merge_args;

/* One call that appends to a cache. Initialise with fa_append_args_init, then set k, v, k_cache and v_cache at least.
 *
 * B: sequences. Sn: new tokens of each, packed total_n of all. The op is that of fa_forward on this cache; letters and arrays
 * as there. */
typedef struct fa_append_args {
  size_t struct_size; /* set by fa_append_args_init */

  fa_tensor k;       /* (B, Sn, Hkv, D), packed: (1, total_n, Hkv, D); dtype_q (default), FA_F32, FA_F16, FA_BF16; D less
                        head_dim_rope */
  fa_tensor v;       /* absent with v_cache, where keys hold the values; (B, Sn, Hkv, Dv), packed as k; the same types */
  fa_tensor k_cache; /* written; (B, Sk, Hkv, D), dtype_kv; paged: (pages, page_size, Hkv, D) */
  fa_tensor v_cache; /* absent with v; written; (B, Sk, Hkv, Dv), dtype_v; paged as k_cache */

  fa_tensor k_scale; /* absent; as fa_forward_args.k_scale for this cache: (B, Sk, Hkv, G), each may be 1, paged as k_cache; under
                        FA_APPEND_COMPUTE_SCALES written, and none but G may differ from k_cache */
  fa_tensor v_scale; /* absent; as k_scale, for v_cache and Dv */
  fa_tensor k_zero;  /* absent; as k_scale; its G may differ; written: as k_scale */
  fa_tensor v_zero;  /* absent; as k_zero, for v_cache and Dv */

  fa_tensor q;     /* absent; (B, Sq, Hq, D), packed: (1, total_n, Hq, D); dtype_q (default), FA_F32, FA_F16, FA_BF16 */
  fa_tensor q_out; /* absent; written; as q; dtype_q; may be exactly q: the same data, strides and type [F241] */

  fa_tensor rotary_cos;   /* absent; (1, positions, 1, rotary_dim / 2); FA_F32 (default), FA_F16, FA_BF16 */
  fa_tensor rotary_sin;   /* absent; as rotary_cos; its type may differ */
  fa_tensor positions;    /* absent; (B, Sn, 1, 1), packed: (1, total_n, 1, 1); FA_I32 (default), FA_I64; a row of the tables */
  fa_tensor q_positions;  /* absent; (B, Sq, 1, 1), packed: (1, total_n, 1, 1); FA_I32 (default), FA_I64 */
  fa_tensor slot_mapping; /* absent; (B, Sn, 1, 1), packed: (1, total_n, 1, 1); FA_I32 (default), FA_I64; no slot twice */
  fa_tensor block_table;  /* absent; (B, pages per sequence, 1, 1); FA_I32; entries of pages without new tokens are not read */

  const int32_t *cu_seqlens_new; /* NULL; num_seqs + 1 entries, as cu_seqlens_q: sequences of k, v, q, positions and slots */
  const int32_t *seqused_new;    /* NULL; 0 .. rows of the sequence; with it Sq is Sn, and q has as many rows */
  const int32_t *cache_seqlens;  /* NULL: 0; rows that the cache holds of each sequence before the call */
  const int32_t *leftpad_k;      /* NULL; 0 .. cache_seqlens: rows that positions leave out */
  const int32_t *kv_batch_idx;   /* NULL; 0 .. shape[0] of k_cache - 1 */

  int64_t num_seqs;       /* 0; required with cu_seqlens_new: the number of sequences B (0 only where k has no rows) */
  int64_t max_seqlen_new; /* 0: unknown (all rows of k); else no sequence has more new tokens */

  uint32_t flags;   /* 0; FA_APPEND_* */
  int32_t reserved; /* 0 */

  void *workspace;       /* NULL; nothing is needed in this version */
  size_t workspace_size; /* 0 */
  void *stream;          /* NULL; as in fa_forward_args */

  fa_tensor k_rope;       /* absent; required with head_dim_rope: as k, with head_dim_rope for D; the same types */
  fa_tensor k_rope_cache; /* absent with k_rope; written; as k_cache, with head_dim_rope for D; dtype_k_rope */
} fa_append_args;

/* What fa_kernel_info reports of one kernel. Strings live as long as the library is loaded [F158]. In a library that loads GPU
 * kernels which another build compiled (FA_KERNELS=load) a kernel without files is not available, and unavailable_reason
 * names the first file that is missing [F201]. */
typedef struct fa_kernel {
  size_t struct_size;             /* set by the caller to sizeof(fa_kernel) */
  const char *name;               /* "cpu.avx2", as for FA_FORCE_KERNEL */
  const char *device;             /* "cpu" or "cuda" */
  const char *arch;               /* the ISA or SM that it is compiled for: "avx2", "sm_80" */
  const char *compute_dtypes;     /* the types that it computes in at full speed, with spaces between: "f32", "f16 bf16" */
  int32_t available;              /* 1 when this machine can run it [F112] */
  int32_t num_backward;           /* the number of names that fa_kernel_backward_name has for it */
  const char *unavailable_reason; /* when not available, the reason; else "" [F113] */
} fa_kernel;

/* ---- attention ------------------------------------------------------------------------------------------------------- */

/* Fills *desc with the defaults given at each field [F114]. struct_size is the caller's sizeof(fa_desc); no byte beyond it is
 * written [F115]. Does nothing when desc is NULL [F116]. Thread-safe. Since 0.1. */
FA_API void fa_desc_init(fa_desc *desc, size_t struct_size);

/* Fills *args with its defaults: everything absent, zero or NULL. struct_size and NULL as in fa_desc_init. Thread-safe.
 * Since 0.1. */
FA_API void fa_forward_args_init(fa_forward_args *args, size_t struct_size);

/* Fills *args with its defaults: everything absent, zero or NULL [F187]. struct_size and NULL as in fa_desc_init. Thread-safe.
 * Since 0.1. */
FA_API void fa_backward_args_init(fa_backward_args *args, size_t struct_size);

/* Fills *args with its defaults: everything absent, zero or NULL. struct_size and NULL as in fa_desc_init. Thread-safe.
 * Since 0.1. */
FA_API void fa_merge_args_init(fa_merge_args *args, size_t struct_size);

/* Fills *args with its defaults: everything absent, zero or NULL [F242]. struct_size and NULL as in fa_desc_init. Thread-safe.
 * Since 0.1. */
FA_API void fa_append_args_init(fa_append_args *args, size_t struct_size);

/* Describes a contiguous tensor of shape (d0, d1, d2, d3), last dimension fastest [F117]. Inputs are only read, wherever they
 * are [F202]: cast a pointer to const, (void *)q. Does nothing when tensor is NULL. Thread-safe. Since 0.1. */
FA_API void fa_tensor_init(fa_tensor *tensor, void *data, fa_dtype dtype, int64_t d0, int64_t d1, int64_t d2, int64_t d3);

/* Creates an op for *desc and stores it in *op (NULL on error [F118]). Checks every field [F119], then takes the first kernel
 * of the library's table, best first, that supports it here [F120]. *desc may be dropped afterwards [F121]. Threads are
 * started by the first call that needs them, not here [F122].
 *
 * An op of FA_DEVICE_AUTO is created even when its GPU cannot be made ready (its memory is full, another process has it). It
 * then accepts host memory only [F123]. Each call with the GPU's memory tries again to make it ready, and while that fails,
 * the call fails with the reason [F124].
 *
 * Errors: FA_ERROR_INVALID_ARGUMENT; FA_ERROR_UNSUPPORTED when no kernel supports the attention (the text gives each
 * reason [F125]); FA_ERROR_NO_DEVICE; FA_ERROR_OUT_OF_MEMORY; FA_ERROR_DRIVER. Thread-safe. Since 0.1. */
FA_API fa_status fa_create(const fa_desc *desc, fa_op **op);

/* Stores in *bytes the workspace that fa_forward needs for *args.
 *
 * The size follows from shapes, max_seqlen_*, num_splits and which arrays are given, and from nothing else: strides [F126],
 * data pointers of q, k, v and out, and the contents of arrays do not matter [F127]. It never falls when a bound rises:
 * lengths, the batch, either number of heads. So the size for the largest call is enough for every smaller one [F128].
 * (num_splits = 0 is no bound: the number chosen may need more or less than a number that is given.)
 *
 * Errors: as fa_forward's checks [F159]; FA_ERROR_OUT_OF_MEMORY when the bytes do not fit size_t [F129]. Thread-safe. Since 0.1. */
FA_API fa_status fa_forward_workspace_size(const fa_op *op, const fa_forward_args *args, size_t *bytes);

/* Computes out (and lse) from q, k and v.
 *
 * On the CPU, the result is there when the call returns [F130]. On CUDA, the work is enqueued on args->stream, and faults of
 * the device surface there [F131]. One case on CUDA is synchronous too: when all memory of the call is plain memory of the
 * host, which the GPU reaches, and stream is NULL, the result is there when the call returns [F132].
 *
 * With a workspace, the call otherwise neither allocates [F133] nor synchronises, and may be captured into a CUDA
 * graph [F134]. The workspace may hold anything [F135], and nothing in it survives the call. Calls that may overlap in time
 * need one each.
 *
 * Errors: FA_ERROR_INVALID_ARGUMENT; FA_ERROR_UNSUPPORTED, for example on a GPU without memory pools when a workspace is
 * needed and none is given [F136]; FA_ERROR_OUT_OF_MEMORY; FA_ERROR_DRIVER; FA_ERROR_NO_DEVICE when the call has to load
 * kernels and they are not there. Thread-safe. Since 0.1. */
FA_API fa_status fa_forward(const fa_op *op, const fa_forward_args *args);

/* Stores in *bytes the workspace that fa_backward needs for *args.
 *
 * The size follows from shapes, max_seqlen_*, and which tensors and arrays are given, and from nothing else: data pointers of
 * q, k, v, lse and dout, strides and the contents of arrays do not matter [F188]. It never falls when lengths, the batch or
 * numbers of heads rise [F189], and grows no faster than the numbers of queries and keys do [F190].
 *
 * Errors: as fa_backward's checks [F191]; FA_ERROR_OUT_OF_MEMORY when the bytes do not fit size_t. Thread-safe. Since 0.1. */
FA_API fa_status fa_backward_workspace_size(const fa_op *op, const fa_backward_args *args, size_t *bytes);

/* Computes the gradients that *args has tensors for; "THE BACKWARD PASS" above defines them. The result is there when
 * fa_forward's would be. With a workspace, which may hold anything, the call does not allocate [F192]. On CUDA the first call
 * in a context loads kernels, which no capture allows; later ones may be captured into a CUDA graph [F193].
 *
 * Errors: as fa_forward. Thread-safe. Since 0.1. */
FA_API fa_status fa_backward(const fa_op *op, const fa_backward_args *args);

/* Stores in *bytes the workspace that fa_merge needs for *args: 0 in this version. Errors: as fa_merge's checks. Thread-safe.
 * Since 0.1. */
FA_API fa_status fa_merge_workspace_size(const fa_op *op, const fa_merge_args *args, size_t *bytes);

/* Merges the parts of *args; "MERGING PARTIAL RESULTS" above defines the result. The result is there when fa_forward's would be. The
 * call does not allocate. On CUDA it is one launch, which can be captured as fa_backward's.
 *
 * Errors: as fa_forward. Thread-safe. Since 0.1. */
FA_API fa_status fa_merge(const fa_op *op, const fa_merge_args *args);

/* Stores in *bytes the workspace that fa_append needs for *args, which is 0 in this version [F243].
 *
 * Errors: as fa_append's checks. Thread-safe. Since 0.1. */
FA_API fa_status fa_append_workspace_size(const fa_op *op, const fa_append_args *args, size_t *bytes);

/* Writes new keys and values into a cache; "APPENDING TO A CACHE" above says where and how. The result is there when
 * fa_forward's would be. On CUDA the first call in a context loads a kernel, which no capture allows; later ones may be
 * captured into a CUDA graph [F244].
 *
 * Errors: as fa_forward. Thread-safe. Since 0.1. */
FA_API fa_status fa_append(const fa_op *op, const fa_append_args *args);

/* Ends an op. NULL is a no-op [F137]. No call on the op may be under way. Since 0.1. */
FA_API void fa_destroy(fa_op *op);

/* ---- errors and information ------------------------------------------------------------------------------------------- */

/* The text of the calling thread's last error [F138]: which argument, its value, the expected values, a remedy. "" when
 * there was none [F139]. Valid until the thread's next failing call [F140]. Never NULL; works out of memory [F141].
 * Thread-safe. Since 0.1. */
FA_API const char *fa_last_error(void);

/* A status's name, "FA_OK" for 0; "unknown fa_status" for any other value [F142]. Never NULL. Thread-safe. Since 0.1. */
FA_API const char *fa_status_string(fa_status status);

/* The name of the kernel that an op runs ("cpu.avx2"); "" for NULL [F143]. Lives as long as the library [F144].
 *
 * On a GPU an op may hold several kernels. The name is that of the best [F155]; calls that it does not support run on the next
 * one (FA_VERBOSE=dispatch says which, and why) [F156]. Under FA_FLAG_BATCH_INVARIANT one kernel runs all calls [F157].
 * Thread-safe. Since 0.1. */
FA_API const char *fa_op_kernel_name(const fa_op *op);

/* The version of the library as loaded: major * 10000 + minor * 100 + patch [F145]. Thread-safe. Since 0.1. */
FA_API int32_t fa_version(void);

/* One line on how the library was built: version, compiler, architecture, kernels [F146]. Thread-safe. Since 0.1. */
FA_API const char *fa_build_info(void);

/* The number of kernels in the library. Thread-safe. Since 0.1. */
FA_API int32_t fa_kernel_count(void);

/* Fills *info (whose struct_size the caller has set; no byte beyond it is written [F147]) with kernel index,
 * 0 .. fa_kernel_count() - 1, best first [F148]. Errors: FA_ERROR_INVALID_ARGUMENT [F149]. Thread-safe. Since 0.1. */
FA_API fa_status fa_kernel_info(int32_t index, fa_kernel *info);

/* The name of the i-th best of the num_backward kernels that compute fa_backward of kernel index's ops: "cpu.avx2", or
 * "cuda.sm_80.backward_mma" and "cuda.sm_80.backward_simt". A build without a backward pass has none. FA_FORCE_KERNEL takes the
 * name of a CPU's kernel, but not of a GPU's [F205]. Where index or i is out of range, the result is "" and fa_last_error()
 * says so [F206]. Never NULL; lives as long as the library. Thread-safe. Since 0.1. */
FA_API const char *fa_kernel_backward_name(int32_t index, int32_t i);

/* Sends the library's messages (FA_VERBOSE) to log(user, text), one line without its newline a call [F150], instead of the
 * standard error; NULL restores that [F151]. Call it before other threads use the library. Since 0.1. */
typedef void (*fa_log)(void *user, const char *text);
FA_API void fa_set_log(fa_log log, void *user);

/* Ends the library's own threads and waits for them [F152]; a later call starts new ones [F153]. No call on an op may be under
 * way. Never needed, but lets a program be unloaded or measured cleanly. Since 0.1. */
FA_API void fa_shutdown(void);

#ifdef __cplusplus
}
#endif

#endif /* LIBFA_FA_H */
