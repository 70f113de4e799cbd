// Random tensors, a warm-up, and in each round the median of as many calls as its time allows.
#include "bench_measure.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "bench_call.h"
#include "error.h"
#include "gpu.h"
#include "library.h"
#include "machine.h"
#include "memory_move.h"
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
  explicit Prepared(const BenchCase &c) : c_(c) {
    fa_desc_init(&desc_, sizeof desc_);
    desc_.dtype_q = c.dtype;
    desc_.dtype_kv = c.dtype_kv;
    desc_.head_dim = c.dim;
    desc_.head_dim_v = c.dim_v;
    desc_.mask = c.causal ? FA_MASK_CAUSAL : FA_MASK_NONE;
    desc_.num_threads = c.threads;
    if (c.nondeterministic) desc_.flags |= FA_FLAG_NONDETERMINISTIC;
    if (c.hadamard_k) desc_.flags |= FA_FLAG_HADAMARD_K;
    if (c.hadamard_v) desc_.flags |= FA_FLAG_HADAMARD_V;
    force_kernel(c.kernel);
    op_ = create_op(desc_);
    if (c.cold && on_gpu())
      bad_input("--cold is of calls on the CPU, and {} runs on a GPU; --kernel takes one of the CPU", kernel());
  }
  virtual ~Prepared() = default;
  Prepared(const Prepared &) = delete;
  Prepared &operator=(const Prepared &) = delete;

  /// Makes this many calls, and waits for the last one.
  virtual void call(int64_t times) = 0;
  virtual Work work() const = 0;

  /// The plain move of memory that a call is compared with, "" for none; its bytes; its seconds.
  virtual std::string plain() const { return ""; }
  virtual double plain_bytes() const { return 0; }
  virtual double plain_seconds() { return 0; }

  std::string kernel() const { return fa_op_kernel_name(op_.get()); }

 protected:
  bool on_gpu() const { return is_gpu_kernel(kernel()); }
  int32_t threads() const { return c_.threads ? c_.threads : default_threads(); }

  const BenchCase c_;
  fa_desc desc_;
  Op op_;
};

class PreparedMerge : public Prepared {
 public:
  explicit PreparedMerge(const BenchCase &c)
      : Prepared(c), work_(BenchMerge::work(c)), merge_(c, op_, desc_.device_index) {}

  void call(int64_t times) override {
    for (int64_t i = 0; i < times; ++i) merge_.call(op_);
    merge_.wait();
  }
  Work work() const override { return work_; }

 private:
  Work work_;
  BenchMerge merge_;
};

class PreparedAppend : public Prepared {
 public:
  explicit PreparedAppend(const BenchCase &c) : Prepared(c), append_(c, op_, desc_.device_index) {}

  void call(int64_t times) override {
    for (int64_t i = 0; i < times; ++i) append_.call(op_);
    append_.wait();
  }
  Work work() const override {
    Work work;
    work.bytes = tensor_bytes(c_);
    return work;
  }
  std::string plain() const override { return on_gpu() ? "" : "memcpy"; }
  double plain_bytes() const override { return tensor_bytes(c_); }
  double plain_seconds() override { return append_.copy_seconds(threads()); }

 private:
  BenchAppend append_;
};

class PreparedAttention : public Prepared {
 public:
  explicit PreparedAttention(const BenchCase &c)
      : Prepared(c),
        q_(random_array(c.dtype, {c.batch, c.rows_q, c.heads_q, c.dim}, 1)),
        caches_(c),
        out_(make_array(npy_type_of(c.dtype), {c.batch, c.rows_q, c.heads_q, c.dim_v})),
        backward_of_forward_(backward_of_forward(c)) {
    fa_forward_args_init(&args_, sizeof args_);
    args_.q = tensor_of(&q_, c.dtype);
    args_.out = tensor_of(&out_, c.dtype);
    use_cache(0);
    if (c.backward) {
      gradients_.emplace(c, op_, args_, desc_.device_index);
      return;
    }
    if (on_gpu()) {
      gpu_.emplace(args_, op_.get(), c.batch, desc_.device_index);
      return;
    }
    check(fa_forward_workspace_size(op_.get(), &args_, &args_.workspace_size));
    args_.workspace = workspace_.allocate(args_.workspace_size);
  }

  void call(int64_t times) override {
    for (int64_t i = 0; i < times; ++i) {
      if (gradients_) {
        gradients_->call(op_);
      } else {
        check(fa_forward(op_.get(), gpu_ ? &gpu_->args : &args_));
        use_cache((cache_ + 1) % caches_.count());
      }
    }
    if (gpu_) gpu_->wait();
    if (gradients_) gradients_->wait();
  }
  Work work() const override {
    Work work = work_of(desc_, args_);
    if (!gradients_) {
      work.bytes = tensor_bytes(c_);
      return work;
    }
    work.flops *= backward_of_forward_;
    work.bytes *= 2;  // each input has a gradient
    return work;
  }
  std::string plain() const override { return c_.bound_by_memory() && !on_gpu() ? "read" : ""; }
  double plain_bytes() const override { return cache_bytes(c_); }
  double plain_seconds() override {
    const std::vector<MemoryMove> moves = caches_.moves(cache_);
    use_cache((cache_ + 1) % caches_.count());
    return move_seconds(moves, threads());
  }

 private:
  void use_cache(size_t number) {
    cache_ = number;
    const BenchCaches::Tensors from = caches_.tensors(number);
    args_.k = from.k, args_.v = from.v;
    args_.k_scale = from.k_scale, args_.v_scale = from.v_scale;
    args_.k_zero = from.k_zero, args_.v_zero = from.v_zero;
  }

  Array q_;
  BenchCaches caches_;
  Array out_;
  double backward_of_forward_;
  size_t cache_ = 0;
  BenchWorkspace workspace_;
  fa_forward_args args_;
  std::optional<OnGpu<fa_forward_args>> gpu_;
  std::optional<BenchGradients> gradients_;
};

std::unique_ptr<Prepared> prepare(const BenchCase &c) {
  if (c.merge) return std::make_unique<PreparedMerge>(c);
  if (c.append) return std::make_unique<PreparedAppend>(c);
  return std::make_unique<PreparedAttention>(c);
}

/// Median seconds of a call and of its plain move, of as many samples as the budget allows; a call that is longer than
/// the budget is the only sample.
struct Round {
  double call = 0, plain = 0;
};
Round one_round(Prepared *prepared, double budget, const std::function<bool()> &stopped) {
  constexpr double shortest_sample = 20e-6;  // so that reading the clock does not count
  const bool compared = !prepared->plain().empty();
  // The first call brings the tensors back into the caches that they fit, and shows how long a call takes.
  const double first = std::max(seconds_of(1, [&] { prepared->call(1); }), 1e-8);
  if (first > budget || stopped()) return {first, compared ? prepared->plain_seconds() : 0};
  const int64_t calls = std::max<int64_t>(1, static_cast<int64_t>(shortest_sample / first));
  std::vector<double> samples, plain;
  double used = 0;
  while (samples.empty() || ((samples.size() < 3 || used < budget) && !stopped())) {
    const double seconds = seconds_of(1, [&] { prepared->call(calls); });
    samples.push_back(seconds / static_cast<double>(calls));
    used += seconds;
    double all = 0;
    for (int64_t i = 0; i < calls && compared; ++i) all += prepared->plain_seconds();
    plain.push_back(all / static_cast<double>(calls));
  }
  return {median(samples), median(plain)};
}

using Cases = std::span<const BenchCase>;

/// The cases from the first one on that are measured together: a cold one, whose caches may fill the memory, alone.
Cases begin_of(Cases cases) {
  const auto cold = std::ranges::find(cases, true, &BenchCase::cold);
  return cases.first(std::max<size_t>(1, static_cast<size_t>(cold - cases.begin())));
}

/// Refuses cases whose tensors together need more memory than is free: Linux grants it and ends programs that use it.
void check_memory(Cases cases, double free) {
  double before = 0;
  for (const BenchCase &c : cases) {
    const double own = memory_bytes(c);
    if (free != 0 && before + own > free)
      failure("{}: out of memory: its tensors have {}{}, and {} are free", name_of(c), bytes_text(own),
              before == 0 ? "" : fmt::format(" and those of the cases before it {}", bytes_text(before)),
              bytes_text(free));
    before += own;
  }
}

/// Measures cases in rounds, and appends them to the measurements. done: steps of the cases before, of `total` ones.
void measure_together(Cases cases, const MeasureOptions &options, int64_t done, int64_t total,
                      const std::function<void(int64_t, int64_t, const BenchCase &)> &progress,
                      const std::function<bool()> &stopped, std::vector<Measurement> *measurements) {
  const size_t first = measurements->size();
  const auto count = static_cast<int64_t>(cases.size());
  std::vector<std::unique_ptr<Prepared>> prepared;
  for (const BenchCase &c : cases) {
    if (stopped()) return;
    progress(done, total, c);
    prepared.push_back(prepare(c));
    prepared.back()->call(1);  // starts threads, and refuses impossible calls before anything is measured
    const Work work = prepared.back()->work();
    Measurement m = {c, prepared.back()->kernel(), work.flops, work.bytes, {}, prepared.back()->plain(), 0, {}};
    m.plain_bytes = prepared.back()->plain_bytes();
    measurements->push_back(std::move(m));
  }
  force_kernel("");
  for (int64_t step = 0; step < options.rounds * count && !stopped(); ++step) {
    const auto i = static_cast<size_t>(step % count);
    if (i == 0 && options.at_round) options.at_round();
    progress(done + step, total, cases[i]);
    const Round round = one_round(prepared[i].get(), options.seconds, stopped);
    Measurement &m = (*measurements)[first + i];
    m.seconds.push_back(round.call);
    if (!m.plain.empty()) m.plain_seconds.push_back(round.plain);
  }
}

}  // namespace

std::vector<Measurement> measure(const std::vector<BenchCase> &cases, const MeasureOptions &options,
                                 const std::function<void(int64_t, int64_t, const BenchCase &)> &progress,
                                 const std::function<bool()> &stopped) {
  const double free = free_memory();
  for (Cases rest = cases; !rest.empty(); rest = rest.subspan(begin_of(rest).size()))
    check_memory(begin_of(rest), free);
  std::vector<Measurement> measurements;
  int64_t done = 0;
  for (Cases rest = cases; !rest.empty() && !stopped();) {
    const Cases now = begin_of(rest);
    measure_together(now, options, done, options.rounds * static_cast<int64_t>(cases.size()), progress, stopped,
                     &measurements);
    done += options.rounds * static_cast<int64_t>(now.size());
    rest = rest.subspan(now.size());
  }
  std::erase_if(measurements, [](const Measurement &m) { return m.seconds.empty(); });
  return measurements;
}

}  // namespace fa::tool
