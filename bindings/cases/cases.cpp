// The case list of tests/engine, each case with its memory and the library's own answer.
#include "cases.h"

#include <string>
#include <vector>

#include "engine/features.h"
#include "support/case.h"
#include "support/instance.h"

using test::Case;

namespace {

struct Types {
  fa_dtype q, kv, out;
};

/// What q, k and v, and out are made of: the next of these for every case.
constexpr Types all_types[] = {{FA_F32, FA_DTYPE_DEFAULT, FA_DTYPE_DEFAULT},
                               {FA_F16, FA_DTYPE_DEFAULT, FA_DTYPE_DEFAULT},
                               {FA_BF16, FA_DTYPE_DEFAULT, FA_DTYPE_DEFAULT},
                               {FA_F32, FA_BF16, FA_F16}};

struct List {
  std::vector<Case> cases;
  size_t alone = 0;

  List() {
    for (const Case &base : test::bases()) {
      add(base);
      for (const test::Feature &feature : test::features()) add(base, &feature);
    }
    alone = cases.size();
    for (const test::Feature &a : test::features())
      for (const test::Feature &b : test::features())
        if (&a < &b && std::string(a.group) != b.group)
          add(test::pair_bases()[cases.size() % test::pair_bases().size()], &a, &b);
  }

  void add(Case c, const test::Feature *a = nullptr, const test::Feature *b = nullptr) {
    const Types &types = all_types[cases.size() % std::size(all_types)];
    c.q = types.q, c.kv = types.kv, c.out = types.out;
    for (const test::Feature *feature : {a, b})
      if (feature) feature->add(&c);
    c.workspace = false;
    c.seed = cases.size() + 1;
    cases.push_back(c);
  }
};

const List &list() {
  static const List it;
  return it;
}

}  // namespace

struct fa_case {
  explicit fa_case(const Case &c) : instance(c), text(test::to_text(c)) {
    for (const std::string &name : test::refused(c)) refused += (refused.empty() ? "" : " ") + name;
  }

  test::Instance instance;
  std::string text, refused, judgement;
};

int32_t fa_cases_count() {
  return int32_t(list().cases.size());
}

int32_t fa_cases_alone() {
  return int32_t(list().alone);
}

fa_case *fa_case_open(int32_t index) {
  return index < 0 || index >= fa_cases_count() ? nullptr : new fa_case(list().cases[size_t(index)]);
}

const char *fa_case_text(const fa_case *c) {
  return c->text.c_str();
}

const fa_desc *fa_case_desc(const fa_case *c) {
  return &c->instance.desc;
}

const fa_args *fa_case_args(const fa_case *c) {
  return &c->instance.args;
}

const char *fa_case_refused(const fa_case *c) {
  return c->refused.c_str();
}

const char *fa_case_judge(fa_case *c) {
  const test::Instance own(c->instance.c);
  if (c->refused.empty()) {
    fa_op *op = nullptr;
    fa_status status = fa_create(&own.desc, &op);
    if (status == FA_OK) status = fa_forward(op, &own.args);
    fa_destroy(op);
    if (status != FA_OK) return (c->judgement = std::string("the library itself: ") + fa_last_error()).c_str();
  }
  c->judgement = c->instance.untouched();
  if (c->judgement.empty() && c->instance.output_bits() != own.output_bits())
    c->judgement = c->refused.empty() ? "out or lse are not what the library gives" : "a refused call has written";
  return c->judgement.c_str();
}

void fa_case_close(fa_case *c) {
  delete c;
}
