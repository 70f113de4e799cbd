// Weights are read from results: with zeros for q and k, scores are those of bias and ALiBi alone, and with the
// identity for v, column j of a row of out is the weight of key j. A second call has infinity in the place of 1: it
// reaches exactly the queries that attend the key, however small the weight.
#include "draw_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "error.h"
#include "library.h"
#include "npy.h"
#include "run_options.h"
#include "tensor_file.h"

namespace fa::tool {
namespace {

/// Whether a tensor may decide a mask: not the rows of heads, nor the pages that these are in.
constexpr bool is_drawn(schema::ShapeRule rule) {
  const schema::Form form = schema::form_of(rule);
  return form != schema::Form::rows && form != schema::Form::pages;
}

/// "1,0/-inf,1" as rows of numbers; std::nullopt where the text is not an array.
std::optional<std::vector<std::vector<double>>> numbers_of(const std::string &text) {
  std::vector<std::vector<double>> rows(1);
  const char *at = text.data(), *end = text.data() + text.size();
  for (;;) {
    double number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc()) return {};
    rows.back().push_back(number);
    if (rest == end) return rows;
    if (*rest == '/')
      rows.emplace_back();
    else if (*rest != ',')
      return {};
    at = rest + 1;
  }
}

/// An option's numbers as an array of one of the types of its tensor.
Array array_of(const std::string &option, const std::string &text, const std::vector<std::vector<double>> &rows,
               schema::TypeRule type) {
  const size_t columns = rows.front().size();
  for (const std::vector<double> &row : rows) {
    if (row.size() != columns)
      bad_input("{} is '{}', with rows of {} and of {} numbers; rows of one length are expected", option, text, columns,
                row.size());
  }
  std::vector<int64_t> shape = {static_cast<int64_t>(columns)};
  if (rows.size() > 1) shape.insert(shape.begin(), static_cast<int64_t>(rows.size()));
  const bool boolean = type == schema::TypeRule::boolean;
  const bool whole = type == schema::TypeRule::i32 || type == schema::TypeRule::index;
  Array array = make_array(boolean ? NpyType::boolean : whole ? NpyType::i32 : NpyType::f32, shape);
  int64_t at = 0;
  for (const std::vector<double> &row : rows) {
    for (const double number : row) {
      if (boolean && number != 0 && number != 1)
        bad_input("{} has {:g}; 0 (hidden) or 1 (attended) is expected", option, number);
      if (whole && (number != std::trunc(number) || number < -0x1p31 || number >= 0x1p32))
        bad_input("{} has {:g}; whole numbers of 32 bits are expected", option, number);
      if (boolean)
        array.bytes[static_cast<size_t>(at++)] = std::byte(number != 0);
      else if (whole)
        array.data<int32_t>()[at++] = static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(number)));
      else
        array.data<float>()[at++] = static_cast<float>(number);
    }
  }
  return array;
}

/// The array of an option: its numbers, or its file's.
Array read_array(const std::string &option, const std::string &text, schema::TypeRule type) {
  if (const auto rows = numbers_of(text)) return array_of(option, text, *rows, type);
  std::error_code none;
  if (!std::filesystem::exists(text, none))
    bad_input("{} is '{}'; a .npy file, or numbers such as 1,2/3,4 (a slash between rows), is expected", option, text);
  return read_npy(text);
}

class DrawCall {
 public:
  explicit DrawCall(const DrawOptions &options);
  Drawing drawing(const std::string &title);

 private:
  void describe(const DrawOptions &options);
  void read_tensors(const DrawOptions &options);
  void read_arrays(const DrawOptions &options);
  void make_rows(const DrawOptions &options);
  std::vector<float> results(const Op &op, float value);

  fa_desc desc_;
  fa_forward_args args_;
  int64_t sequences_ = 1, heads_ = 1, queries_ = 0, keys_ = 0;
  std::vector<float> q_, k_, v_, out_;
#define FA_TENSOR(name, ...) Array name##_array_;
#define FA_ARRAY(name, ...) std::vector<int32_t> name##_;
  FA_DRAW_FIELDS(FA_TENSOR, FA_ARRAY, FA_NOTHING)
#undef FA_TENSOR
#undef FA_ARRAY
};

DrawCall::DrawCall(const DrawOptions &options) {
  fa_desc_init(&desc_, sizeof desc_);
  fa_forward_args_init(&args_, sizeof args_);
  read_tensors(options);
  read_arrays(options);
  make_rows(options);
  describe(options);
}

void DrawCall::read_tensors(const DrawOptions &options) {
  const auto read = [&](const char *name, const std::string &text, schema::TypeRule type, schema::ShapeRule shape,
                        Array *array, fa_tensor *tensor) {
    if (text.empty() || !is_drawn(shape)) return;
    const std::string option = option_of(name);
    *tensor = tensor_of(read_array(option, text, type), numbers_of(text) ? option : text, type, shape, {}, array);
    if (schema::form_of(shape) != schema::Form::places) heads_ = std::max(heads_, tensor->shape[1]);
    sequences_ = std::max(sequences_, tensor->shape[0]);
  };
#define FA_TENSOR(name, access, presence, type, shape, ...) \
  read(#name, options.name, schema::TypeRule::type, schema::ShapeRule::shape, &name##_array_, &args_.name);
  FA_DRAW_FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)
#undef FA_TENSOR
  for (const fa_tensor *scores : {&args_.bias, &args_.mask}) {
    if (!scores->data) continue;
    if (scores->shape[2] > 1) queries_ = std::max(queries_, scores->shape[2]);
    if (scores->shape[3] > 1) keys_ = std::max(keys_, scores->shape[3]);
  }
  if (args_.tree_mask.data) queries_ = std::max(queries_, args_.tree_mask.shape[2]);
}

void DrawCall::read_arrays(const DrawOptions &options) {
  const auto read = [&](const char *name, const std::string &text, int64_t more, std::vector<int32_t> *values) {
    if (text.empty()) return;
    const std::string option = option_of(name);
    const Array array = read_array(option, text, schema::TypeRule::i32);
    *values = int32_values(numbers_of(text) ? option : text, array);
    if (array.shape.size() != 1 || array.elements() <= more)
      bad_input("{}: shape {}; ({},) is expected, for each sequence a number", option, shape_text(array.shape),
                more ? "sequences + 1" : "sequences");
    sequences_ = std::max(sequences_, array.elements() - more);
  };
#define FA_ARRAY(name, more, ...) \
  read(#name, more == 1 && !options.cu_seqlens.empty() ? options.cu_seqlens : options.name, more, &name##_);
  FA_DRAW_FIELDS(FA_NOTHING, FA_ARRAY, FA_NOTHING)
#undef FA_ARRAY
  const auto set = [&](const char *name, int64_t more, const std::vector<int32_t> &values, const int32_t **target) {
    if (values.empty()) return;
    if (static_cast<int64_t>(values.size()) != sequences_ + more)
      bad_input("{} has {} numbers; {} are expected, as there are {} sequences", option_of(name), values.size(),
                sequences_ + more, sequences_);
    *target = values.data();
    if (more) args_.num_seqs = sequences_;
  };
#define FA_ARRAY(name, more, ...) set(#name, more, name##_, &args_.name);
  FA_DRAW_FIELDS(FA_NOTHING, FA_ARRAY, FA_NOTHING)
#undef FA_ARRAY
}

/// q and k of zeros, v and out, as long as the options or the arrays say.
void DrawCall::make_rows(const DrawOptions &options) {
  const auto rows = [](const char *option, int64_t given, const std::vector<int32_t> &starts, int64_t otherwise) {
    if (!starts.empty() && given)
      bad_input("{} is given with --cu-seqlens, whose last number is the number of rows; expected one of them", option);
    const int64_t count = given ? given : !starts.empty() ? starts.back() : otherwise;
    if (count < 1 || count > draw_limit)
      bad_input("there are {} {}; 1 .. {} are expected, as many as a picture can show", count, option + 2, draw_limit);
    return count;
  };
  queries_ = rows("--queries", options.queries, cu_seqlens_q_, queries_ ? queries_ : 8);
  keys_ = rows("--keys", options.keys, cu_seqlens_k_, keys_ ? keys_ : queries_);
  const int64_t batch_q = cu_seqlens_q_.empty() ? sequences_ : 1, batch_k = cu_seqlens_k_.empty() ? sequences_ : 1;
  q_.resize(static_cast<size_t>(batch_q * queries_ * heads_));
  k_.resize(static_cast<size_t>(batch_k * keys_));
  v_.resize(static_cast<size_t>(batch_k * keys_ * keys_));
  out_.resize(q_.size() * static_cast<size_t>(keys_));
  fa_tensor_init(&args_.q, q_.data(), FA_F32, batch_q, queries_, heads_, 1);
  fa_tensor_init(&args_.k, k_.data(), FA_F32, batch_k, keys_, 1, 1);
  fa_tensor_init(&args_.v, v_.data(), FA_F32, batch_k, keys_, 1, keys_);
  fa_tensor_init(&args_.out, out_.data(), FA_F32, batch_q, queries_, heads_, keys_);
}

void DrawCall::describe(const DrawOptions &options) {
  desc_.device = FA_DEVICE_CPU;
  desc_.dtype_q = FA_F32;
  desc_.head_dim = 1;
  desc_.head_dim_v = keys_;
  set_mask(options, &desc_);
}

/// out with `value` on the diagonal of v; rows that the call leaves alone are -1.
std::vector<float> DrawCall::results(const Op &op, float value) {
  std::ranges::fill(v_, 0.0F);
  for (size_t row = 0; row < v_.size() / static_cast<size_t>(keys_); ++row)
    v_[row * static_cast<size_t>(keys_) + row % static_cast<size_t>(keys_)] = value;
  std::ranges::fill(out_, -1.0F);
  check(fa_forward(op.get(), &args_));
  return out_;
}

Drawing DrawCall::drawing(const std::string &title) {
  const Op op = create_op(desc_);
  const std::vector<float> weights = results(op, 1), reached = results(op, std::numeric_limits<float>::infinity());
  Drawing drawing;
  drawing.title = title;
  drawing.columns = heads_;
  drawing.weighted = args_.bias.data || args_.alibi_slopes.data || args_.sinks.data;
  for (int64_t b = 0; b < args_.q.shape[0]; ++b) {
    for (int64_t h = 0; h < heads_; ++h) {
      MaskPanel panel;
      if (args_.q.shape[0] > 1) panel.title = fmt::format("sequence {}", b);
      if (heads_ > 1) panel.title += fmt::format("{}head {}", panel.title.empty() ? "" : ", ", h);
      panel.queries = queries_, panel.keys = keys_;
      for (int64_t i = 0; i < queries_; ++i) {
        const auto at = static_cast<size_t>(((b * queries_ + i) * heads_ + h) * keys_);
        double sum = 0;
        panel.computed.push_back(weights[at] != -1);
        for (size_t j = 0; j < static_cast<size_t>(keys_); ++j) {
          if (std::isnan(weights[at + j]))
            bad_input("the weights of query {} are NaN; expected a bias, slopes and sinks without NaN and inf", i);
          panel.weights.push_back(static_cast<double>(weights[at + j]));
          panel.attended.push_back(std::isinf(reached[at + j]));
          sum += panel.weights.back();
        }
        if (args_.sinks.data) panel.sinks.push_back(std::max(0.0, 1 - sum));
      }
      drawing.panels.push_back(std::move(panel));
    }
  }
  return drawing;
}

}  // namespace

void define_draw_options(Options *o, DrawOptions *r) {
  o->group("Output");
  o->value("-o,--out", r->out, "FILE", "where the SVG goes; default: the standard output");
  o->value("--title", r->title, "TEXT", "of the picture, for those who cannot see it");
  o->group("Sizes");
  o->value("--queries", r->queries, "N", "rows; default: those of the arrays below, else 8", Range{1, draw_limit});
  o->value("--keys", r->keys, "N", "columns; default: those of the arrays, else --queries", Range{1, draw_limit});
  o->group("Attention");
  define_mask_options(o, r);
  o->group("Tensors and arrays (.npy files, or numbers: 1,2/3,4)");
  const auto define = [&](const char *name, schema::ShapeRule rule, const char *text, std::string *target) {
    if (is_drawn(rule)) o->value(option_of(name).c_str(), *target, "FILE", help_of(rule, text).c_str());
  };
#define FA_TENSOR(name, access, presence, type, shape, promise, text) \
  define(#name, schema::ShapeRule::shape, text, &r->name);
  FA_DRAW_FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)
#undef FA_TENSOR
  o->value("--cu-seqlens", r->cu_seqlens, "FILE", "sets both of the next two");
#define FA_ARRAY(name, more, promise, text) o->value(option_of(#name).c_str(), r->name, "FILE", text);
  FA_DRAW_FIELDS(FA_NOTHING, FA_ARRAY, FA_NOTHING)
#undef FA_ARRAY
  o->group("Execution");
  o->value("--kernel", r->kernel, "NAME", "use this CPU kernel (see `fa info`) or fail");
  o->help("print this");
  o->exclude("--causal", "--causal-top-left");
  o->exclude("--cu-seqlens", "--cu-seqlens-q");
  o->exclude("--cu-seqlens", "--cu-seqlens-k");
}

Drawing drawing_of(const DrawOptions &options) {
  return DrawCall(options).drawing(options.title.empty() ? "attention mask" : options.title);
}

}  // namespace fa::tool
