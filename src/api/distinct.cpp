// Two elements are in one place where steps along the dimensions, of either sign and not all none, lead back to where
// they began. Steps of a common layout are longer than all shorter ones together, which leaves nothing to look for.
#include "api/distinct.h"

#include <algorithm>

#include "api/refuse.h"
#include "api/steps.h"

namespace fa::api {
namespace {

class Search {
 public:
  explicit Search(const Steps &steps) : steps_(steps) {
    for (int i = steps.count; i-- > 0;) reach_[i] = reach_[i + 1] + static_cast<int64_t>(steps.of[i].reach());
  }

  /// Whether there are such steps; taken[] has them, by dimension. The shortest are tried first: they explain most.
  bool find(int64_t (&taken)[4]) {
    for (int first = steps_.count; first-- > 0;) {
      const auto [length, max_steps, dimension] = step(first);
      for (int64_t n = 1; n <= max_steps && n * length <= reach_[first + 1] && tries_ > 0; ++n) {
        taken[dimension] = n;
        if (leads_to(first + 1, -n * length, taken)) return true;
      }
      taken[dimension] = 0;
    }
    return false;
  }

 private:
  struct Signed {
    int64_t length, max_steps;
    int dimension;
  };

  Signed step(int i) const {
    const Steps::Step &s = steps_.of[i];
    return {static_cast<int64_t>(s.length), static_cast<int64_t>(s.max_steps), s.dimension};
  }

  /// Whether steps along the dimensions from i on can lead so far.
  bool leads_to(int i, int64_t way, int64_t (&taken)[4]) {
    --tries_;
    if (i == steps_.count) return way == 0;
    const auto [length, max_steps, dimension] = step(i);
    const int64_t rest = reach_[i + 1];
    const int64_t low = std::max(-max_steps, (way - rest) / length), high = std::min(max_steps, (way + rest) / length);
    for (int64_t n = low; n <= high && tries_ > 0; ++n) {
      taken[dimension] = n;
      if (leads_to(i + 1, way - n * length, taken)) return true;
    }
    taken[dimension] = 0;
    return false;
  }

  const Steps &steps_;
  int64_t reach_[5] = {};  // of the dimensions from i on, all together
  int tries_ = 2000;       // microseconds: no layout that is meant takes more
};

}  // namespace

bool check_distinct(const char *name, const fa_tensor &t) {
  const Steps steps(t.shape, t.stride);
  uint64_t reach = 0;
  for (int i = 0; i < steps.count; ++i) reach += steps.of[i].reach();
  if (reach > INT64_MAX / 2) return true;  // no memory is that long

  int64_t taken[4] = {}, a[4], b[4];
  if (!Search(steps).find(taken)) [[likely]]
    return true;
  for (int i = 0; i < 4; ++i) {
    const int64_t n = t.stride[i] < 0 ? -taken[i] : taken[i];
    a[i] = std::max(-n, int64_t{0});
    b[i] = std::max(n, int64_t{0});
  }
  return refuse(
      "%s.stride is (%lld, %lld, %lld, %lld), which puts elements (%lld, %lld, %lld, %lld) and (%lld, %lld, %lld, "
      "%lld) at the same address; expected a separate address for each, as they are written",
      name, ll{t.stride[0]}, ll{t.stride[1]}, ll{t.stride[2]}, ll{t.stride[3]}, ll{a[0]}, ll{a[1]}, ll{a[2]}, ll{a[3]},
      ll{b[0]}, ll{b[1]}, ll{b[2]}, ll{b[3]});
}

}  // namespace fa::api
