#include "cuda/tiling.h"

#include <algorithm>

#include "cuda/splits.h"

namespace fa::cuda {
namespace {

using kernels::Entry;
using kernels::TileConfig;

constexpr int64_t max_packed_rows = int64_t{1} << 30;

int64_t group_of(const ForwardCall &call) {
  return call.heads_kv > 0 ? call.heads_q / call.heads_kv : 1;
}

/// The part of its tiles that a sequence's rows fill.
double filled_part(int64_t queries, int64_t rows) {
  return static_cast<double>(queries) / static_cast<double>(ceil_div(queries, rows) * rows);
}

/// True when packing this many heads wastes fewer rows than tiles of single heads (FlashAttention-3's should_pack_gqa).
bool should_pack_gqa(const ForwardCall &call, const TileConfig &tile, int64_t heads) {
  const int64_t queries = call.max_seqlen_q, rows = rows_of(tile, heads);
  return heads > 1 && queries > 0 && queries * heads <= max_packed_rows &&
         filled_part(queries, tile.rows) * static_cast<double>(tile.rows) <
             0.9 * filled_part(queries * heads, rows) * static_cast<double>(rows);
}

/// The heads of a group that a tile packs, if any: all of them; where queries come in boxes, as many as take the fewest
/// tiles.
int64_t heads_of(const ForwardCall &call, const TileConfig &tile) {
  const int64_t group = group_of(call);
  if (tile.box_queries == 0) return group;
  int64_t best = 1;
  for (int64_t heads = 2; heads <= std::min<int64_t>(group, tile.box_queries); heads++)
    if (group % heads == 0 && (tile.partial_boxes || tile.box_queries % heads == 0) &&
        all_tiles_of(call, rows_of(tile, heads), heads) <= all_tiles_of(call, rows_of(tile, best), best))
      best = heads;
  return best;
}

/// The tile that decides on packing and splits for those entry points of an image whose own tiles do not
/// (TileConfig::splits_and_packs): plain's where that does, else Entry::split's; {} where there is neither.
TileConfig split_tile_of(const Image &image) {
  const TileConfig plain = image.tile_of(Entry::plain);
  return plain.splits_and_packs ? plain : image.tile_of(Entry::split);
}

/// Floats of a row's unfinished softmax.
int64_t partial_floats(const ForwardCall &call) {
  return call.attention->head_dim_v + 2;
}

/// Splits that the caller or the flag fixes; 0 where the engine chooses. Under the flag there are two at least:
/// combined results and those of a single kernel may differ in their last bit, and how many splits there are follows
/// from bounds.
int64_t fixed_splits(const ForwardCall &call, const TileConfig &split) {
  if (call.attention->batch_invariant) return std::max<int64_t>(ceil_div(call.max_seqlen_k, invariant_split_keys), 2);
  if (call.num_splits == 0) return 0;
  return std::clamp<int64_t>(ceil_div(call.max_seqlen_k, split.keys), 1, call.num_splits);
}

/// The rows up to which Entry::decode takes a call: of the first image that has it.
int64_t few_rows(const KernelSet &kernels) {
  for (const Image *image : kernels)
    if (image->has(Entry::decode)) return image->tile_of(Entry::decode).rows;
  return 0;
}

/// Whether all tiles attend about as many keys as the bound says: a causal mask hides few of them.
bool has_even_tiles(const ForwardCall &call) {
  constexpr int64_t min_keys_of_a_query = 5;
  const Attention &a = *call.attention;
  if (call.cu_seqlens_q != nullptr || a.window_left >= 0 || a.window_right >= 0 || a.chunk > 0) return false;
  if (a.mask == FA_MASK_NONE) return true;
  return a.mask == FA_MASK_CAUSAL && call.q_offset == nullptr &&
         call.max_seqlen_k / min_keys_of_a_query >= call.max_seqlen_q;
}

/// The blocks of keys that a tile attends, at most: a window or a chunk may leave it few.
int64_t attended_blocks(const ForwardCall &call, const TileConfig &tile) {
  const Attention &a = *call.attention;
  const int64_t queries = std::min<int64_t>(call.max_seqlen_q, tile.rows),
                right = a.mask != FA_MASK_NONE ? 0 : a.window_right;
  Count keys = call.max_seqlen_k;
  if (a.window_left >= 0 && right >= 0) keys = std::min(keys, Count(a.window_left) + right + queries);
  if (a.chunk > 0) keys = std::min(keys, Count(a.chunk) + queries);
  return std::min(ceil_div(call.max_seqlen_k, tile.keys),
                  ceil_div(number(keys), tile.keys) + 1);  // they begin anywhere
}

/// The splits of a call, by the tile of an entry point that splits and packs.
SplitChoice splits_of(const ForwardCall &call, Entry entry, const TileConfig &tile, Count tiles, const Device &device) {
  if (const int64_t fixed = fixed_splits(call, tile); fixed != 0) return {0, fixed};
  return choose_splits({entry, tile, number(tiles), ceil_div(call.max_seqlen_k, tile.keys), attended_blocks(call, tile),
                        has_even_tiles(call)},
                       device);
}

}  // namespace

Tiles tiles_of(const ForwardCall &call, int64_t rows, int64_t packed) {
  return cuda::tiles_of(call.cu_seqlens_q != nullptr, call.batch, Count(call.rows_q) * packed,
                        call.max_seqlen_q * packed, rows);
}

Count all_tiles_of(const ForwardCall &call, int64_t rows, int64_t packed) {
  return tiles_of(call, rows, packed).count * (call.heads_q / packed) * (call.cu_seqlens_q != nullptr ? 1 : call.batch);
}

int64_t rows_of(const TileConfig &tile, int64_t heads) {
  const int64_t box = tile.box_queries;
  return box == 0 ? tile.rows : tile.rows / box * (box / heads * heads);
}

int64_t tile_bytes(const ForwardCall &call, int64_t rows) {
  return rows * partial_floats(call) * static_cast<int64_t>(sizeof(float));
}

TilingChoice tiling_of(const ForwardCall &call, const Image &image, const TileConfig &split_tile,
                       const KernelSet &kernels, const Device &device) {
  const bool invariant = call.attention->batch_invariant;
  const int64_t heads = heads_of(call, split_tile);
  const bool pack = should_pack_gqa(call, split_tile, heads);
  const int64_t packed = pack ? heads : 1;
  // Under the flag a row's result must not follow from how many rows there are. Families that support all calls take
  // few rows, too, with the entry point that they have.
  const bool takes_few = image.has(Entry::decode) || !image.family->is_fallback;
  const bool few = call.max_seqlen_q * packed <= few_rows(kernels) && !invariant && takes_few;
  const Entry entry = few ? Entry::decode : Entry::split;
  const TileConfig tile = few && image.has(Entry::decode) ? image.tile_of(Entry::decode) : split_tile;
  const auto [unsplit, splits] =
      splits_of(call, entry, tile, all_tiles_of(call, rows_of(tile, packed), packed), device);
  return {entry, packed, splits, unsplit, splits == 1 && !pack && !few && !invariant};
}

TilingChoice default_tiling_of(const ForwardCall &call, const Image &image, const KernelSet &kernels,
                               const Device &device) {
  if (const TileConfig own = split_tile_of(image); own.rows > 0) return tiling_of(call, image, own, kernels, device);
  for (const Image *other : kernels)
    if (const TileConfig its = split_tile_of(*other); its.rows > 0)
      return tiling_of(call, *other, its, kernels, device);
  const bool whole = call.num_splits <= 1 && !call.attention->batch_invariant;
  return {Entry::split, 1, 1, 0, whole};
}

bool wastes_rows(const ForwardCall &call, const TileConfig &tile, const TilingChoice &tiling) {
  const int64_t group = group_of(call);
  return tiling.packed < group && heads_of(call, tile) < group && call.max_seqlen_q * tiling.packed < tile.rows / 2;
}

int64_t bound_of(const ForwardCall &call, const TileConfig &split, const Device &device) {
  const int64_t bytes = tile_bytes(call, split.rows);
  const Count tiles = all_tiles_of(call, split.rows, 1);  // packing has fewer
  if (const int64_t fixed = fixed_splits(call, split); fixed > 0)
    return fixed == 1 ? 0 : number(std::min<Count>(fixed * tiles * bytes, std::max(max_partial_bytes, fixed * bytes)));
  const int64_t key_blocks = ceil_div(call.max_seqlen_k, split.keys);
  if (key_blocks < fewest_blocks_to_split) return 0;
  const int64_t max_partials = max_waves(split) * max_active_blocks(Entry::split, split, device);
  return number(std::min<Count>(std::min(max_splits(device), key_blocks) * tiles, max_partials)) * bytes;
}

}  // namespace fa::cuda
