// Random tensors, a warm-up, and in each round the median of as many calls as its time allows.
#include "bench_measure.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "bench_call.h"
#include "error.h"
#include "gpu.h"
#include "library.h"
#include "machine.h"
#include "npy.h"
#include "stats.h"
#include "text.h"
#include "timing.h"
#include "work.h"

namespace fa::tool {
namespace {

/// One case with its op, its tensors and its workspace, ready to be called.
class Prepared {
 public:
  explicit Prepared(const BenchCase &c) {
    fa_desc_init(&desc_, sizeof desc_);
    desc_.dtype_q = c.dtype;
    desc_.head_dim = c.dim;
    desc_.head_dim_v = c.dim_v;
    desc_.mask = c.causal ? FA_MASK_CAUSAL : FA_MASK_NONE;
    desc_.num_threads = c.threads;
    if (c.nondeterministic) desc_.flags |= FA_FLAG_NONDETERMINISTIC;
    force_kernel(c.kernel);
    op_ = create_op(desc_);
  }
  virtual ~Prepared() = default;
  Prepared(const Prepared &) = delete;
  Prepared &operator=(const Prepared &) = delete;

  /// Calls as often, and waits for the last.
  virtual void call(int64_t times) const = 0;
  virtual Work work() const = 0;
  std::string kernel() const { return fa_op_kernel_name(op_.get()); }

 protected:
  fa_desc desc_;
  Op op_;
};

class PreparedMerge : public Prepared {
 public:
  explicit PreparedMerge(const BenchCase &c)
      : Prepared(c), work_(BenchMerge::work(c)), merge_(c, op_, desc_.device_index) {}

  void call(int64_t times) const override {
    for (int64_t i = 0; i < times; ++i) merge_.call(op_);
    merge_.wait();
  }
  Work work() const override { return work_; }

 private:
  Work work_;
  BenchMerge merge_;
};

class PreparedAttention : public Prepared {
 public:
  explicit PreparedAttention(const BenchCase &c)
      : Prepared(c),
        q_(random_array(c.dtype, {c.batch, c.rows_q, c.heads_q, c.dim}, 1)),
        k_(random_array(c.dtype, {c.batch, c.rows_k, c.heads_kv, c.dim}, uint64_t{1} << 40)),
        v_(random_array(c.dtype, {c.batch, c.rows_k, c.heads_kv, c.dim_v}, uint64_t{1} << 41)),
        out_(make_array(npy_type_of(c.dtype), {c.batch, c.rows_q, c.heads_q, c.dim_v})),
        backward_of_forward_(backward_of_forward(c)) {
    fa_forward_args_init(&args_, sizeof args_);
    args_.q = tensor_of(&q_, c.dtype);
    args_.k = tensor_of(&k_, c.dtype);
    args_.v = tensor_of(&v_, c.dtype);
    args_.out = tensor_of(&out_, c.dtype);
    if (c.backward) {
      gradients_.emplace(c, op_, args_, desc_.device_index);
      return;
    }
    if (is_gpu_kernel(kernel())) {
      gpu_.emplace(args_, op_.get(), c.batch, desc_.device_index);
      return;
    }
    check(fa_forward_workspace_size(op_.get(), &args_, &args_.workspace_size));
    args_.workspace = workspace_.allocate(args_.workspace_size);
  }

  void call(int64_t times) const override {
    for (int64_t i = 0; i < times; ++i) {
      if (gradients_) {
        gradients_->call(op_);
      } else {
        check(fa_forward(op_.get(), gpu_ ? &gpu_->args : &args_));
      }
    }
    if (gpu_) gpu_->wait();
    if (gradients_) gradients_->wait();
  }
  Work work() const override {
    Work work = work_of(desc_, args_);
    if (!gradients_) return work;
    work.flops *= backward_of_forward_;
    work.bytes *= 2;  // each input has a gradient
    return work;
  }

 private:
  Array q_, k_, v_, out_;
  double backward_of_forward_;
  BenchWorkspace workspace_;
  fa_forward_args args_;
  std::optional<OnGpu<fa_forward_args>> gpu_;
  std::optional<BenchGradients> gradients_;
};

std::unique_ptr<Prepared> prepare(const BenchCase &c) {
  if (c.merge) return std::make_unique<PreparedMerge>(c);
  return std::make_unique<PreparedAttention>(c);
}

/// The median of as many samples as the budget allows; a call that is longer than the budget is a sample by itself.
double one_round(const Prepared &prepared, double budget, const std::function<bool()> &stopped) {
  constexpr double shortest_sample = 20e-6;  // so that reading the clock does not count
  // The first call brings the tensors back into the caches that they fit, and shows how long a call takes.
  const double first = std::max(seconds_of(1, [&] { prepared.call(1); }), 1e-8);
  if (first > budget || stopped()) return first;
  const int64_t calls = std::max<int64_t>(1, static_cast<int64_t>(shortest_sample / first));
  std::vector<double> samples;
  double used = 0;
  while (samples.empty() || ((samples.size() < 3 || used < budget) && !stopped())) {
    const double seconds = seconds_of(1, [&] { prepared.call(calls); });
    samples.push_back(seconds / static_cast<double>(calls));
    used += seconds;
  }
  return median(samples);
}

/// Linux grants more memory than there is and ends programs that use it.
void check_memory(const BenchCase &c, double before, double free) {
  const double own = tensor_bytes(c);
  if (free == 0 || before + own <= free) return;
  failure("{}: out of memory: its tensors have {}{}, and {} are free", name_of(c), bytes_text(own),
          before == 0 ? "" : fmt::format(" and those of the cases before it {}", bytes_text(before)), bytes_text(free));
}

}  // namespace

std::vector<Measurement> measure(const std::vector<BenchCase> &cases, const MeasureOptions &options,
                                 const std::function<void(int64_t, int64_t, const BenchCase &)> &progress,
                                 const std::function<bool()> &stopped) {
  std::vector<Measurement> measurements;
  std::vector<std::unique_ptr<Prepared>> prepared;
  const auto count = static_cast<int64_t>(cases.size());
  const double free = free_memory();
  double used = 0;
  for (const BenchCase &c : cases) {
    if (stopped()) return {};
    progress(0, options.rounds * count, c);
    check_memory(c, used, free);
    used += tensor_bytes(c);
    prepared.push_back(prepare(c));
    prepared.back()->call(1);  // starts threads, and refuses impossible calls before anything is measured
    const Work work = prepared.back()->work();
    measurements.push_back({c, prepared.back()->kernel(), work.flops, work.bytes, {}});
  }
  force_kernel("");
  for (int64_t step = 0; step < options.rounds * count && !stopped(); ++step) {
    const auto i = static_cast<size_t>(step % count);
    progress(step, options.rounds * count, cases[i]);
    measurements[i].seconds.push_back(one_round(*prepared[i], options.seconds, stopped));
  }
  std::erase_if(measurements, [](const Measurement &m) { return m.seconds.empty(); });
  return measurements;
}

}  // namespace fa::tool
