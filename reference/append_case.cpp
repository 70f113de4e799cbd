#include "reference/append_case.h"

#include "reference/case.h"

namespace reference {
namespace {

std::string word(int64_t value) {
  return std::to_string(value);
}
std::string word(uint64_t value) {
  return std::to_string(value);
}
std::string word(const std::string &value) {
  return value;
}
std::string word(bool value) {
  return value ? "1" : "0";
}
std::string word(uint32_t value) {
  return std::to_string(value);
}
std::string word(int32_t value) {
  return std::to_string(value);
}
std::string word(Layout value) {
  return name_of(value);
}
std::string word(CacheAddressing value) {
  constexpr const char *names[] = {"rows", "pages", "slots32", "slots64"};
  return names[int(value)];
}
std::string word(PositionType value) {
  constexpr const char *names[] = {"none", "i32", "i64"};
  return names[int(value)];
}

}  // namespace

std::string to_text(const AppendCase &c) {
  const AppendCase standard;
  std::string text;
  const auto add = [&](const char *key, const auto &value, const auto &usual, bool always = false) {
    if (value != usual || always) text += (text.empty() ? "" : " ") + std::string(key) + "=" + word(value);
  };
#define FA_ADD(key) add(#key, c.key, standard.key);
#define FA_ALWAYS(key) add(#key, c.key, standard.key, true);
#define FA_TYPE(key) add(#key, std::string(name_of(c.key)), std::string(name_of(standard.key)));
  FA_ALWAYS(b)
  FA_ALWAYS(sn)
  FA_ALWAYS(hkv)
  FA_ALWAYS(d)
  FA_ADD(dv)
  FA_ADD(rope) FA_TYPE(k_rope_cache) FA_ALWAYS(rows) FA_TYPE(q) FA_TYPE(k) FA_TYPE(v) FA_TYPE(cache) FA_TYPE(v_cache)
      FA_ADD(kscale) FA_ADD(vscale) FA_ADD(kzero) FA_ADD(vzero) FA_ADD(computed) FA_ADD(flags) FA_ADD(packed)
          FA_ADD(used) FA_ADD(lens) FA_ADD(leftpad) FA_ADD(batch_idx) FA_ADD(bounds) FA_ADD(keys_alone)
              FA_ADD(addressing) FA_ADD(page) FA_ADD(skipped) FA_ADD(repeated) FA_ADD(pairs) FA_ADD(interleaved)
                  FA_ADD(tail) FA_TYPE(table) FA_ADD(positions) FA_ADD(q_positions) FA_ADD(hq) FA_ADD(sq)
                      FA_TYPE(q_given) FA_ADD(in_place) FA_ADD(k_layout) FA_ADD(v_layout) FA_ADD(q_layout)
                          FA_ADD(k_cache_layout) FA_ADD(v_cache_layout) FA_ADD(q_out_layout) FA_ADD(special)
                              FA_ADD(threads) FA_ALWAYS(seed)
#undef FA_ADD
#undef FA_ALWAYS
#undef FA_TYPE
                                  return text;
}

}  // namespace reference
