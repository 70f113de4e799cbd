// Where blocks go, and who has which columns.
#include "exec/multiprocessors.h"

#include <algorithm>

#include "exec/launch.h"
#include "exec/tensor_memory.h"

namespace fa::emu {
namespace {

constexpr uint32_t unit = 32;  // columns

}  // namespace

void Multiprocessors::set_up(const Kinds &kinds) {
  std::lock_guard lock(mutex_);
  kinds_ = kinds;
  all_ = std::vector<Multiprocessor>(kinds.count);
}

uint32_t Multiprocessors::enter(uint64_t share) {
  std::lock_guard lock(mutex_);
  const uint32_t places = usable();
  uint32_t best = next_ % places;
  for (uint32_t i = 1; i < places && all_[best].load > 0; i++)
    if (const uint32_t number = (next_ + i) % places; all_[number].load < all_[best].load) best = number;
  next_ = best + 1;
  all_[best].load += share;
  return best;
}

void Multiprocessors::leave(uint32_t number, uint64_t share) {
  std::lock_guard lock(mutex_);
  all_[number].load -= share;
}

Multiprocessors::Owner Multiprocessors::owner_of(const Cta &cta) {
  const Launch &launch = *cta.launch;
  return {&cta, launch.grid_number,
          "block (" + std::to_string(cta.id[0]) + "," + std::to_string(cta.id[1]) + "," + std::to_string(cta.id[2]) +
              ") of launch " + std::to_string(launch.grid_number) + ", " + readable_name(launch.program->name),
          false};
}

bool Multiprocessors::is_free(uint32_t number, uint32_t first, uint32_t count) const {
  const auto &columns = all_[number].columns;
  return std::none_of(columns.begin(), columns.end(),
                      [&](const Columns &one) { return first < one.first + one.count && one.first < first + count; });
}

std::optional<uint32_t> Multiprocessors::allocate(const Cta &cta, const Cta *peer, uint32_t columns) {
  std::lock_guard lock(mutex_);
  auto &waiting = all_[cta.multiprocessor].waiting;
  std::erase_if(waiting, [&](const Columns &one) { return one.owner.cta == &cta; });
  for (uint32_t first = 0; first + columns <= TensorMemory::column_count; first += unit) {
    if (!is_free(cta.multiprocessor, first, columns)) continue;
    if (peer && !is_free(peer->multiprocessor, first, columns)) continue;
    all_[cta.multiprocessor].columns.push_back({first, columns, owner_of(cta)});
    if (peer) all_[peer->multiprocessor].columns.push_back({first, columns, owner_of(*peer)});
    return first;
  }
  waiting.push_back({0, columns, owner_of(cta)});
  return {};
}

void Multiprocessors::deallocate(const Cta &cta, uint32_t first, uint32_t columns) {
  std::lock_guard lock(mutex_);
  auto &all = all_[cta.multiprocessor].columns;
  auto found = std::find_if(all.begin(), all.end(), [&](const Columns &one) {
    return one.owner.cta == &cta && !one.owner.ended && one.first == first && one.count == columns;
  });
  if (found != all.end()) all.erase(found);
}

void Multiprocessors::abandon(const Cta &cta) {
  std::lock_guard lock(mutex_);
  for (Columns &one : all_[cta.multiprocessor].columns)
    if (one.owner.cta == &cta) one.owner.ended = true;
}

void Multiprocessors::reset_columns(uint64_t grid) {
  std::lock_guard lock(mutex_);
  auto goes = [&](const Columns &one) { return grid ? one.owner.grid == grid : one.owner.ended; };
  for (Multiprocessor &one : all_) {
    std::erase_if(one.columns, goes);
    std::erase_if(one.waiting, goes);
  }
}

std::string Multiprocessors::waiting_for_columns() const {
  constexpr size_t max_named = 4;
  std::lock_guard lock(mutex_);
  std::string text;
  size_t named = 0;
  for (uint32_t number = 0; number < all_.size(); number++)
    for (const Columns &asks : all_[number].waiting) {
      if (++named > max_named) return text + "; and more blocks wait for columns";
      text += "; " + asks.owner.name + " waits for " + std::to_string(asks.count) +
              " columns of tensor memory of multiprocessor " + std::to_string(number) + ", of which ";
      if (all_[number].columns.empty()) text += "none are taken";
      for (size_t i = 0; i < all_[number].columns.size(); i++) {
        const Columns &one = all_[number].columns[i];
        text += (i ? ", and " : "") + one.owner.name + (one.owner.ended ? " ended with " : " has ") +
                std::to_string(one.first) + " to " + std::to_string(one.first + one.count - 1);
      }
    }
  return text;
}

}  // namespace fa::emu
