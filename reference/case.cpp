#include "reference/case.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <sstream>
#include <vector>

namespace reference {
namespace {

struct NamedType {
  fa_dtype dtype;
  const char *name;
};
constexpr NamedType named_types[] = {
    {FA_DTYPE_DEFAULT, "default"},
#define FA_ELEMENT(dtype, number, name, use, bits) {FA_##dtype, #name},
#define FA_CODES(dtype, number, name, kind, elements, bytes) {FA_##dtype, #name},
#include "src/core/all_elements.inc"
#include "src/core/codes.inc"
#undef FA_ELEMENT
#undef FA_CODES
};
const char *const mask_names[] = {"none", "causal", "top_left"};

template <class T>
bool from_name(const std::string &text, const char *const *names, int count, T *value) {
  for (int i = 0; i < count; ++i) {
    if (text != names[i]) continue;
    *value = T(i);
    return true;
  }
  return false;
}

std::string number_text(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

/// One key of the textual form.
struct Field {
  std::string key;
  std::function<std::string()> print;
  std::function<bool(const std::string &)> parse;
};

/// The keys of a case, bound to its members.
std::vector<Field> fields_of(Case *c) {
  std::vector<Field> fields;
  const auto integer = [&](const char *key, auto *member) {
    fields.push_back({key, [member] { return std::to_string(*member); },
                      [member](const std::string &text) {
                        char *end;
                        const long long value = std::strtoll(text.c_str(), &end, 10);
                        *member = std::remove_pointer_t<decltype(member)>(value);
                        return !text.empty() && *end == 0;
                      }});
  };
  const auto real = [&](const char *key, double *member) {
    fields.push_back({key, [member] { return number_text(*member); },
                      [member](const std::string &text) {
                        char *end;
                        *member = std::strtod(text.c_str(), &end);
                        return !text.empty() && *end == 0;
                      }});
  };
  const auto text_field = [&](const char *key, std::string *member) {
    fields.push_back({key, [member] { return *member; },
                      [member](const std::string &text) {
                        *member = text;
                        return true;
                      }});
  };
  const auto dtype = [&](const char *key, fa_dtype *member) {
    fields.push_back({key, [member] { return name_of(*member); },
                      [member](const std::string &text) {
                        *member = dtype_named(text);
                        return *member != FA_DTYPE_DEFAULT || text == "default";
                      }});
  };
  const auto layout = [&](const char *key, Layout *member) {
    fields.push_back({key, [member] { return name_of(*member); },
                      [member](const std::string &text) {
                        for (int i = 0; i < layout_count; ++i)
                          if (text == name_of(Layout(i))) return *member = Layout(i), true;
                        return false;
                      }});
  };

  integer("b", &c->b);
  integer("sq", &c->sq);
  integer("sk", &c->sk);
  integer("hq", &c->hq);
  integer("hkv", &c->hkv);
  integer("d", &c->d);
  integer("dv", &c->dv);
  integer("rope", &c->rope);
  dtype("krope", &c->krope);
  dtype("q", &c->q);
  dtype("kv", &c->kv);
  dtype("v", &c->v);
  dtype("out", &c->out);
  fields.push_back({"mask", [c] { return mask_names[c->mask]; },
                    [c](const std::string &text) { return from_name(text, mask_names, 3, &c->mask); }});
  integer("window_left", &c->window_left);
  integer("window_right", &c->window_right);
  integer("chunk", &c->chunk);
  real("scale", &c->scale);
  real("softcap", &c->softcap);
  integer("flags", &c->flags);
  integer("cu_q", &c->cu_q);
  integer("cu_k", &c->cu_k);
  integer("used_q", &c->used_q);
  integer("used_k", &c->used_k);
  integer("leftpad", &c->leftpad);
  integer("batch_idx", &c->batch_idx);
  integer("offset", &c->offset);
  integer("page", &c->page);
  text_field("bias", &c->bias);
  text_field("boolmask", &c->boolmask);
#define FA_WORD(word, field) text_field(#word, &c->word);
  FA_PER_HEAD_WORDS(FA_WORD)
#undef FA_WORD
  text_field("kscale", &c->kscale);
  text_field("vscale", &c->vscale);
  text_field("kzero", &c->kzero);
  text_field("vzero", &c->vzero);
  text_field("tree", &c->tree);
  text_field("depths", &c->depths);
  integer("lse", &c->lse);
  integer("splits", &c->splits);
  integer("threads", &c->threads);
  integer("workspace", &c->workspace);
  integer("bounds", &c->bounds);
  text_field("fenv", &c->fenv);
  layout("q_layout", &c->q_layout);
  layout("k_layout", &c->k_layout);
  layout("v_layout", &c->v_layout);
  layout("out_layout", &c->out_layout);
  real("amp", &c->amp);
  real("k_amp", &c->k_amp);
  real("v_amp", &c->v_amp);
  text_field("subnormal", &c->subnormal);
  integer("special", &c->special);
  integer("far", &c->far);
  integer("padded", &c->padded);
  integer("backward", &c->backward);
  integer("chained", &c->chained);
  text_field("grads", &c->grads);
  text_field("dbias", &c->dbias);
  text_field("dsinks", &c->dsinks);
  integer("dlse", &c->dlse);
  integer("delta", &c->delta);
  text_field("accumulate", &c->accumulate);
  dtype("dout", &c->dout);
  dtype("dq", &c->dq);
  dtype("dk", &c->dk);
  dtype("dv_type", &c->dv_type);
  dtype("dbias_type", &c->dbias_type);
  layout("dout_layout", &c->dout_layout);
  layout("grad_layout", &c->grad_layout);
  real("dout_amp", &c->dout_amp);
  integer("dout_ends", &c->dout_ends);
  integer("dout_fall", &c->dout_fall);
  fields.push_back({"seed", [c] { return std::to_string(c->seed); },
                    [c](const std::string &text) {
                      char *end;
                      c->seed = std::strtoull(text.c_str(), &end, 10);
                      return !text.empty() && *end == 0;
                    }});
  return fields;
}

}  // namespace

const char *name_of(fa_dtype dtype) {
  for (const NamedType &type : named_types)
    if (type.dtype == dtype) return type.name;
  return "";
}

fa_dtype dtype_named(const std::string &name) {
  for (const NamedType &type : named_types)
    if (type.name == name) return type.dtype;
  return FA_DTYPE_DEFAULT;
}

std::string to_text(const Case &c) {
  constexpr size_t always = 8;  // the sizes and q
  Case copy = c, standard;
  const std::vector<Field> fields = fields_of(&copy), defaults = fields_of(&standard);
  std::string text;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string value = fields[i].print();
    if (fields[i].key == "dv" && c.dv == 0) continue;
    if (i >= always && value == defaults[i].print() && fields[i].key != "seed") continue;
    text += (text.empty() ? "" : " ") + fields[i].key + "=" + value;
  }
  return text;
}

Case case_from_text(const std::string &text, std::string *error) {
  Case c;
  error->clear();
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    bool known = false, good = false;
    for (const Field &field : fields_of(&c)) {
      if (equals == std::string::npos || field.key != word.substr(0, equals)) continue;
      known = true;
      good = field.parse(word.substr(equals + 1));
    }
    if (!known || !good) *error += (known ? "no value for its key: " : "no key of a case: ") + word + "; ";
  }
  return c;
}

}  // namespace reference
