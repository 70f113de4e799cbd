#include "cuda/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/dtype.h"
#include "cuda/derive.h"
#include "cuda/inputs.h"
#include "cuda/order.h"
#include "cuda/splits.h"
#include "cuda/tensor_maps.h"

namespace fa::cuda {
namespace {

using kernels::Entry;
using kernels::TileConfig;

constexpr int64_t most_packed_rows = int64_t{1} << 30;

int64_t group_of(const ForwardCall &p) {
  return p.heads_kv > 0 ? p.heads_q / p.heads_kv : 1;
}

/// Tiles of every sequence, or a bound on those of all packed ones together.
Tiles tiles_of(const ForwardCall &p, int64_t rows, int64_t packed) {
  return cuda::tiles_of(p.cu_seqlens_q != nullptr, p.batch, Count(p.rows_q) * packed, p.max_seqlen_q * packed, rows);
}

Count all_tiles_of(const ForwardCall &p, int64_t rows, int64_t packed) {
  return tiles_of(p, rows, packed).count * (p.heads_q / packed) * (p.cu_seqlens_q != nullptr ? 1 : p.batch);
}

/// The part of its tiles that a sequence's rows fill.
double filled_part(int64_t queries, int64_t rows) {
  return static_cast<double>(queries) / static_cast<double>(ceil_div(queries, rows) * rows);
}

/// The rows of a tile of this many packed heads: where queries come in boxes, whole queries of each.
int64_t rows_of(const TileConfig &tile, int64_t heads) {
  const int64_t box = tile.box_queries;
  return box == 0 ? tile.rows : tile.rows / box * (box / heads * heads);
}

/// True when packing this many heads wastes fewer rows than tiles of single heads (FlashAttention-3's should_pack_gqa).
bool should_pack_gqa(const ForwardCall &p, const TileConfig &tile, int64_t heads) {
  const int64_t queries = p.max_seqlen_q, rows = rows_of(tile, heads);
  return heads > 1 && queries > 0 && queries * heads <= most_packed_rows &&
         filled_part(queries, tile.rows) * static_cast<double>(tile.rows) <
             0.9 * filled_part(queries * heads, rows) * static_cast<double>(rows);
}

/// The heads that a tile has of a group's, if any are packed: all of them; where queries come in boxes, those that take
/// the fewest tiles.
int64_t heads_of(const ForwardCall &p, const TileConfig &tile) {
  const int64_t group = group_of(p);
  if (tile.box_queries == 0) return group;
  int64_t best = 1;
  for (int64_t heads = 2; heads <= std::min<int64_t>(group, tile.box_queries); heads++)
    if (group % heads == 0 && (tile.partial_boxes || tile.box_queries % heads == 0) &&
        all_tiles_of(p, rows_of(tile, heads), heads) <= all_tiles_of(p, rows_of(tile, best), best))
      best = heads;
  return best;
}

/// The tile by which an image cuts calls for entry points that do not cut them by their own: Entry::split's, or plain's
/// where that does the same; {} of others.
TileConfig cutting_tile(const Image &image) {
  const TileConfig plain = image.tile_of(Entry::plain);
  return plain.cuts ? plain : image.tile_of(Entry::split);
}

/// Floats of a row's unfinished softmax.
int64_t partial_floats(const ForwardCall &p) {
  return p.attention->head_dim_v + 2;
}

int64_t tile_bytes(const ForwardCall &p, int64_t rows) {
  return rows * partial_floats(p) * static_cast<int64_t>(sizeof(float));
}

/// Splits that the caller or the flag fixes; 0 where the engine chooses. Under the flag there are two at least:
/// combined results and those of a single kernel may differ in their last bit, and how many splits there are follows
/// from bounds.
int64_t fixed_splits(const ForwardCall &p, const TileConfig &split) {
  if (p.attention->batch_invariant) return std::max<int64_t>(ceil_div(p.max_seqlen_k, invariant_split_keys), 2);
  if (p.num_splits == 0) return 0;
  return std::clamp<int64_t>(ceil_div(p.max_seqlen_k, split.keys), 1, p.num_splits);
}

/// How a call is shared out, by the tile of an entry point that cuts.
struct TilingChoice {
  Entry entry;  // split, or decode for few rows
  int64_t packed, splits;
  bool whole;  // one split of unpacked rows, many of them: entry points that neither pack nor split serve it, too
};

/// The rows up to which Entry::decode takes a call: of the first image that has it.
int64_t few_rows(const ForwardKernels &serving) {
  for (const Image *image : serving)
    if (image->has(Entry::decode)) return image->tile_of(Entry::decode).rows;
  return 0;
}

TilingChoice cut_of(const ForwardCall &p, const Image &image, const TileConfig &cutting, const ForwardKernels &serving,
                    const Device &device) {
  const bool invariant = p.attention->batch_invariant;
  const int64_t heads = heads_of(p, cutting);
  const bool pack = should_pack_gqa(p, cutting, heads);
  const int64_t packed = pack ? heads : 1;
  // Under the flag a row's result must not follow from how many rows there are.
  const bool few = p.max_seqlen_q * packed <= few_rows(serving) && !invariant;
  const Entry entry = few ? Entry::decode : Entry::split;
  const TileConfig tile = few && image.has(Entry::decode) ? image.tile_of(Entry::decode) : cutting;
  int64_t splits = fixed_splits(p, tile);
  if (splits == 0)
    splits = num_splits_heuristic(
        {entry, tile, number(all_tiles_of(p, rows_of(tile, packed), packed)), ceil_div(p.max_seqlen_k, tile.keys)},
        device);
  return {entry, packed, splits, splits == 1 && !pack && !few && !invariant};
}

/// The cut of a call for entry points of an image that do not cut by their own tiles; by the first one's that cuts
/// where this one does not.
TilingChoice cut_for(const ForwardCall &p, const Image &image, const ForwardKernels &serving, const Device &device) {
  if (const TileConfig own = cutting_tile(image); own.rows > 0) return cut_of(p, image, own, serving, device);
  for (const Image *other : serving)
    if (const TileConfig its = cutting_tile(*other); its.rows > 0) return cut_of(p, *other, its, serving, device);
  const bool whole = p.num_splits <= 1 && !p.attention->batch_invariant;
  return {Entry::split, 1, 1, whole};
}

/// True when rows fill less than half of a tile which a family that packs any number of heads would fill.
bool wastes_rows(const ForwardCall &p, const TileConfig &tile, const TilingChoice &cut) {
  const int64_t group = group_of(p);
  return cut.packed < group && heads_of(p, tile) < group && p.max_seqlen_q * cut.packed < tile.rows / 2;
}

/// Chooses the image and its entry point, best first; false when none serves.
bool choose(const ForwardCall &p, const ForwardKernels &serving, const Device &device, Plan *plan, TilingChoice *cut) {
  for (const Image *image : serving) {
    const TilingChoice usual = cut_for(p, *image, serving, device);
    const bool invariant = p.attention->batch_invariant;  // rows of any number, by one entry point
    const auto skip = [&](Entry entry, const char *why) { plan->skipped[plan->skipped_count++] = {image, entry, why}; };
    bool has_any = false;
    for (const Entry entry : {Entry::narrow, Entry::plain, Entry::score_mod, Entry::general, usual.entry}) {
      const TileConfig tile = image->tile_of(entry);
      *cut = tile.cuts ? cut_of(p, *image, tile, serving, device) : usual;
      const bool cuts = entry == cut->entry || (tile.cuts && cut->entry == Entry::split && !invariant);
      if (!image->has(entry) || (!cuts && !cut->whole)) continue;
      has_any = true;
      const char *why = wastes_rows(p, tile, *cut) ? "few rows of heads that its tiles do not pack" : nullptr;
      if (why == nullptr) why = image->family->unsupported_call_reason(entry, plan->params);
      if (why == nullptr && tile.box_keys > 0) why = encode_maps(p, plan->params, tile, cut->packed, &plan->maps);
      if (why != nullptr) {
        skip(entry, why);
        continue;
      }
      plan->image = image, plan->entry = entry;
      return true;
    }
    if (!has_any) skip(usual.entry, "the family does not have it");
  }
  return false;
}

/// All but the schedule and the partial results.
kernels::Params params_of(const ForwardCall &p) {
  kernels::Params s = {};
  set_inputs(p, &s);
  s.out = view_of(p.out);
  s.lse = view_of(p.lse);
  return s;
}

/// Of the calls that are cut by one tile.
int64_t bound_of(const ForwardCall &p, const TileConfig &split, const Device &device) {
  const int64_t bytes = tile_bytes(p, split.rows);
  const Count tiles = all_tiles_of(p, split.rows, 1);  // packing has fewer
  if (const int64_t fixed = fixed_splits(p, split); fixed > 0)
    return fixed == 1 ? 0 : number(std::min<Count>(fixed * tiles * bytes, std::max(most_partial_bytes, fixed * bytes)));
  const int64_t key_blocks = ceil_div(p.max_seqlen_k, split.keys);
  if (key_blocks < fewest_blocks_to_split) return 0;
  const int64_t most = most_waves * max_active_blocks(Entry::split, split, device);
  return number(std::min<Count>(std::min(max_splits(device), key_blocks) * tiles, most)) * bytes;
}

}  // namespace

Plan plan_of(const ForwardCall &p, const ForwardKernels &serving, const Device &device) {
  Plan plan = {};
  plan.params = params_of(p);
  TilingChoice cut;
  if (!choose(p, serving, device, &plan, &cut)) return plan;
  plan.tile = plan.image->tile_of(plan.entry);
  plan.tile.rows = static_cast<int>(rows_of(plan.tile, cut.packed));
  plan.tiles = number(all_tiles_of(p, plan.tile.rows, cut.packed));
  plan.launch_tiles = std::min(plan.tiles, most_blocks / cut.splits);

  kernels::TileSchedulerParams &schedule = plan.params.schedule;
  schedule.tile_rows = plan.tile.rows;
  const Tiles tiles = tiles_of(p, plan.tile.rows, cut.packed);
  schedule.tiles = static_cast<int32_t>(number(tiles.count));
  schedule.sequence_tiles = static_cast<int32_t>(tiles.of_sequence);
  schedule.head_groups = static_cast<int32_t>(p.heads_q / cut.packed);
  schedule.heads_per_tile = static_cast<int32_t>(cut.packed);
  schedule.num_splits = static_cast<int32_t>(cut.splits);
  schedule.split_keys = p.attention->batch_invariant ? invariant_split_keys : 0;
  plan.slots = max_active_blocks(plan.entry, plan.tile, device);
  set_order(p, device, plan.tile, plan.slots, &schedule);
  derive(&plan.params);
  if (cut.splits == 1) return plan;

  const int64_t of_a_tile = cut.splits * tile_bytes(p, plan.tile.rows);
  if (p.num_splits != 0 || p.attention->batch_invariant)
    plan.launch_tiles = std::clamp<int64_t>(most_partial_bytes / of_a_tile, 1, plan.launch_tiles);
  plan.partial_bytes = plan.launch_tiles * of_a_tile;
  return plan;
}

void Plan::place_partials(char *workspace) {
  params.partial_rows = launch_tiles * tile.rows;
  params.o_partial = reinterpret_cast<float *>(workspace);
  params.ml_partial = params.o_partial + params.schedule.num_splits * params.partial_rows * params.head_dim_v;
}

int64_t workspace_bound(const ForwardCall &p, const ForwardKernels &serving, const Device &device) {
  int64_t most = 0;
  for (const Image *image : serving)
    for (const Entry entry : {Entry::narrow, Entry::plain, Entry::score_mod, Entry::split})
      if (const TileConfig tile = image->tile_of(entry); tile.cuts || (entry == Entry::split && tile.rows > 0))
        most = std::max(most, bound_of(p, tile, device));
  return most;
}

}  // namespace fa::cuda
