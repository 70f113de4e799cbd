// Every tensor and array that schema/fields.def lists, in a call that has all of them: its types, each of its
// dimensions, what is reserved, its alignment and its memory are checked, and the text names it.
#include "schema/schema.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "api/calls.h"

namespace api_test {
namespace {

using fa::schema::Access;
using fa::schema::Array;
using fa::schema::Fields;
using fa::schema::Presence;
using fa::schema::ShapeRule;
using fa::schema::Tensor;

/// The sizes of Call, by the letters of fa.h.
const std::map<std::string, int64_t> sizes = {{"B", Call::b},
                                              {"B or 1", Call::b},
                                              {"Sq", Call::sq},
                                              {"Sk", Call::sk},
                                              {"Hq", Call::hq},
                                              {"Hq or 1", Call::hq},
                                              {"Hkv", Call::hkv},
                                              {"D", Call::d},
                                              {"Dv", Call::d},
                                              {"1", 1},
                                              {"G", 2},
                                              {"W", 1},
                                              {"pages per sequence", 2},
                                              {"Sn", AppendCall::sn},
                                              {"positions", AppendCall::table_rows},
                                              {"rotary_dim / 2", AppendCall::pairs}};

/// The structure that a call of the tests fills: `call` where it has the memory of Call, whose `args` are fa_forward's.
template <class Of>
auto &structure_of(Of &of) {
  if constexpr (requires { of.call; }) {
    return of.call;
  } else {
    return of.args;
  }
}

#define FA_CALL(op, Op, FIELDS)               \
  struct Op : Op##Call {                      \
    using Args = fa_##op##_args;              \
    Args &of = structure_of<Op##Call>(*this); \
  };
FA_OPERATIONS(FA_CALL)
#undef FA_CALL

/// How a call finds rows of its cache, of which it may have one tensor, and whether these are quantised or its keys in
/// two parts, of which it may have others.
enum class Rows { plain, paged, slots, quantised, divided };

template <class Args>
Rows rows_of(const Tensor<Args> &t) {
  if (t.shape == ShapeRule::of_keys || t.shape == ShapeRule::of_values) return Rows::quantised;
  if (t.shape == ShapeRule::rope_keys || t.shape == ShapeRule::new_rope_keys) return Rows::divided;
  return t.shape == ShapeRule::pages ? Rows::paged : std::string(t.name) == "slot_mapping" ? Rows::slots : Rows::plain;
}

/// A call of the operation with all that its structure can have; block_table, slot_mapping, scales and zeros, or the
/// second part of keys only where they are asked for.
template <class Base>
struct Full : Base {
  using Args = typename Base::Args;
  alignas(256) char memory[std::size(Fields<Args>::tensors) + std::size(Fields<Args>::arrays)][2048] = {};

  static constexpr int64_t rope = Call::d / 2;

  explicit Full(Rows rows = Rows::plain) {
    if constexpr (requires { this->of.k_rope; })
      if (rows == Rows::divided) this->desc.head_dim_rope = rope, this->of.k.shape[3] -= rope;
    if constexpr (requires { this->of.k_rope_cache; })
      if (rows == Rows::divided) this->of.k_cache.shape[3] -= rope;
    int n = 0;
    for (const Tensor<Args> &t : Fields<Args>::tensors) {
      if (rows_of(t) == Rows::plain || rows_of(t) == rows) give(t, memory[n]);
      ++n;
    }
    if constexpr (requires { this->of.tree_mask; }) this->desc.mask = FA_MASK_CAUSAL;  // which a tree needs
    if constexpr (requires { this->of.max_seqlen_k; }) {
      this->of.max_seqlen_k = Call::sk;
      if (rows == Rows::paged) this->of.seqused_k = this->used_k;
      if (rows == Rows::quantised) this->desc.dtype_kv = this->of.k.dtype = this->of.v.dtype = FA_I8;
    }
    if constexpr (requires { this->of.k_rope_cache; })
      if (rows == Rows::divided) this->of.rotary_cos.shape[3] = this->of.rotary_sin.shape[3] = rope / 2;
    if constexpr (requires { this->of.k_cache; })
      if (rows == Rows::quantised) this->desc.dtype_kv = this->of.k_cache.dtype = this->of.v_cache.dtype = FA_I8;
  }

  /// A tensor of the call by its name.
  const fa_tensor &named(const std::string &name) {
    const auto is = [&](const Tensor<Args> &t) { return t.name == name; };
    return this->of.*std::find_if(std::begin(Fields<Args>::tensors), std::end(Fields<Args>::tensors), is)->field;
  }

  void give(const Tensor<Args> &t, void *data) {
    fa_tensor &tensor = this->of.*t.field;
    if (tensor.data) return;  // of the base
    int64_t dimensions[4];
    const std::string text = fa::schema::text_of(t.shape);
    if (text.rfind("as ", 0) == 0) {
      const bool in_cache = t.shape == ShapeRule::rope_keys && std::is_same_v<Base, Append>;
      std::copy_n(named(in_cache ? "k_cache" : text.substr(3, text.find(',') - 3)).shape, 4, dimensions);
      if (rows_of(t) == Rows::divided) dimensions[3] = rope;
    } else {
      std::istringstream shape(text);
      for (int64_t &size : dimensions) {
        std::string word;
        if (shape.peek() == '(' || shape.peek() == ' ') shape.get();
        std::getline(shape, word, &size == dimensions + 3 ? ')' : ',');
        size = sizes.at(word);
        if constexpr (requires { Base::cache_rows; })
          if (word == "Sk") size = Base::cache_rows;
      }
    }
    const int64_t *n = dimensions;
    const std::string types = fa::schema::text_of(t.type);
    const fa_dtype dtype = types == "`FA_BOOL`" ? FA_BOOL : types.find("`FA_I32`") == 0 ? FA_I32 : FA_F32;
    fa_tensor_init(&tensor, data, dtype, n[0], n[1], n[2], n[3]);
  }
};

template <class Base>
void expect_refused(Full<Base> *call, const std::vector<std::string> &words) {
  EXPECT_EQ(call->run(), FA_ERROR_INVALID_ARGUMENT) << testing::PrintToString(words);
  EXPECT_EQ(missing_words(fa_last_error(), words), "");
}

template <class Base>
class Schema : public testing::Test {
 public:
  using Args = typename Base::Args;

  /// f(field, argument, the rows that the call is to have) for each tensor that may be given.
  template <class F>
  static void each_tensor(F f) {
    for (const Tensor<Args> &t : Fields<Args>::tensors) {
      const bool pages = t.shape == ShapeRule::pages;
      if (pages && std::is_same_v<Args, fa_backward_args>) continue;
      f(t, std::string("args.") + t.name, rows_of(t));
    }
  }
};

/// The types without the first one, so that each operation may begin with a comma.
template <class Unused, class... Calls>
using Listed = testing::Types<Calls...>;
#define FA_TYPE(op, Op, FIELDS) , Op
using Operations = Listed<void FA_OPERATIONS(FA_TYPE)>;
#undef FA_TYPE
TYPED_TEST_SUITE(Schema, Operations);

TYPED_TEST(Schema, ACallWithAllOfThemIsServed) {
  for (const Rows rows : {Rows::plain, Rows::quantised, Rows::divided}) {
    if (rows != Rows::plain && !std::is_same_v<TypeParam, Forward>) continue;
    Full<TypeParam> call(rows);
    EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
  }
}

TYPED_TEST(Schema, EachTypeIsServedOrRefused) {
  const std::pair<fa_dtype, const char *> types[] = {{FA_F32, "`FA_F32`"},   {FA_F16, "`FA_F16`"},
                                                     {FA_BF16, "`FA_BF16`"}, {FA_BOOL, "`FA_BOOL`"},
                                                     {FA_I32, "`FA_I32`"},   {FA_I64, "`FA_I64`"}};
  this->each_tensor([&](const auto &t, const std::string &name, Rows rows) {
    const std::string text = fa::schema::text_of(t.type);
    const bool as_others = text.find("`dtype_") != text.npos || text.find("the bias'") != text.npos;  // which is f32
    for (const auto &[dtype, written] : types) {
      Full<TypeParam> call(rows);
      (call.of.*t.field).dtype = dtype;
      if (text.find(written) != text.npos || (as_others && dtype == FA_F32)) {
        EXPECT_EQ(call.run(), FA_OK) << name << " " << written << ": " << fa_last_error();
      } else {
        expect_refused(&call, {name + ".dtype is " + std::to_string(dtype)});
      }
    }
  });
}

/// Whether any length of a dimension is legal, and later tensors must have it, too.
bool others_follow(ShapeRule shape, int dimension) {
  return (shape == ShapeRule::queries && (dimension == 1 || dimension == 2)) ||
         (shape == ShapeRule::rotary && dimension == 1);
}

TYPED_TEST(Schema, EachDimensionIsChecked) {
  this->each_tensor([](const auto &t, const std::string &name, Rows rows) {
    if (t.presence == Presence::required) return;  // others follow from them
    for (int i = 0; i < 4; ++i) {
      if (t.shape == ShapeRule::pages && i == 1) continue;  // any number of pages
      if (others_follow(t.shape, i)) continue;
      Full<TypeParam> call(rows);
      const int64_t size = (call.of.*t.field).shape[i] += 7;
      expect_refused(&call, {name + ".shape[" + std::to_string(i) + "] is " + std::to_string(size)});
    }
  });
}

// [F36] [F83] [F97]
TYPED_TEST(Schema, ReservedAlignmentAndRepetitionAreChecked) {
  this->each_tensor([](const auto &t, const std::string &name, Rows rows) {
    Full<TypeParam> reserved(rows), aligned(rows), repeated(rows);
    (reserved.of.*t.field).reserved = 1;
    expect_refused(&reserved, {name + ".reserved is 1"});
    fa_tensor &tensor = aligned.of.*t.field;
    if (tensor.dtype != FA_BOOL) {
      tensor.data = static_cast<char *>(tensor.data) + 1;
      expect_refused(&aligned, {name + ".data is 0x", "multiple"});
    }
    if (t.access != Access::written) return;
    (repeated.of.*t.field).stride[1] = 0;
    expect_refused(&repeated, {name + ".stride[1] is 0"});
  });
}

// [F197]
TYPED_TEST(Schema, WhatIsWrittenSharesNoMemory) {
  this->each_tensor([&](const auto &written, const std::string &name, Rows of_written) {
    if (written.access != Access::written) return;
    this->each_tensor([&](const auto &other, const std::string &other_name, Rows rows) {
      if (&written == &other) return;
      if (of_written != Rows::plain && rows != Rows::plain && rows != of_written) return;  // never in one call
      if (std::string(written.name) == "q_out" && std::string(other.name) == "q") return;  // which may be in place
      Full<TypeParam> call(rows == Rows::plain ? of_written : rows);
      (call.of.*other.field).data = (call.of.*written.field).data;
      EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT) << name << " and " << other_name;
      const std::string text = fa_last_error();
      EXPECT_TRUE(text.find(name + " overlaps " + other_name) == 0 || text.find(other_name + " overlaps " + name) == 0)
          << text;
    });
  });
}

// [F36] [F197]
TYPED_TEST(Schema, ArraysAreAlignedAndApartFromWhatIsWritten) {
  for (const auto &a : Fields<typename TypeParam::Args>::arrays) {
    const std::string name = std::string("args.") + a.name;
    Full<TypeParam> aligned, apart;
    aligned.of.*a.field = reinterpret_cast<const int32_t *>(aligned.memory[0] + 1);
    if constexpr (requires { aligned.of.num_seqs; }) aligned.of.num_seqs = apart.of.num_seqs = Call::b;
    expect_refused(&aligned, {name + " is 0x", "multiple"});
    if (a.more != 0) continue;  // which need packed tensors
    for (const auto &t : Fields<typename TypeParam::Args>::tensors)
      if (t.access == Access::written) apart.of.*a.field = static_cast<const int32_t *>((apart.of.*t.field).data);
    expect_refused(&apart, {" overlaps " + name});
  }
}

}  // namespace
}  // namespace api_test
