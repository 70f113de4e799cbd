#include "bench_roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "error.h"
#include "gpu.h"
#include "stats.h"
#include "svg.h"

namespace fa::tool {
namespace {

constexpr double left = 52, right = 640, top = 24, bottom = 330;  // of the axes
constexpr int64_t width = 660, row = 14;
constexpr std::array colors = {"#00897b", "#e67e22", "#5c6bc0"};  // of points, by their ceiling of products

/// Decades of an axis that contain all values, with some room.
struct Axis {
  double low, high, from, to;  // exponents, pixels

  Axis(double least, double most, double begin, double end)
      : low(std::floor(std::log10(least))), high(std::ceil(std::log10(most) + 0.02)), from(begin), to(end) {}
  double place(double value) const { return from + (to - from) * (std::log10(value) - low) / (high - low); }
};

class Roofline {
 public:
  explicit Roofline(const BenchRun &run) : run_(run) {
    const Ceiling *memory = memory_of(run.ceilings);
    if (!memory)
      bad_input("--roofline: the results have no ceilings; expected those of a run with --roofline and --json");
    bandwidth_ = median(memory->rates);
    for (const Measurement &m : run.measurements) {
      if (m.flops > 0 && !is_gpu_kernel(m.kernel) && ceiling_of(m.kernel, run.ceilings)) points_.push_back(&m);
    }
    if (points_.empty()) bad_input("--roofline: no case has products on the CPU; expected one of attention there");
  }

  std::string text() {
    set_axes();
    add_grid();
    add_ceilings();
    add_points();
    double y = bottom + 44;
    for (size_t i = 0; i < points_.size(); ++i, y += row) add_line(i, y);
    y += 8;
    add_text("", 0, y, "start",
             fmt::format("{}, libfa {}. Lines: ceilings, measured in the same run; percent: of the lower one", run_.cpu,
                         run_.version));
    return svg_begin("fa-roofline", width, static_cast<int64_t>(y) + 10, "fa bench --roofline") +
           "<g fill=\"currentColor\">\n" + body_ + "</g>\n</svg>\n";
  }

 private:
  static double intensity(const Measurement &m) { return m.flops / m.bytes; }
  static double rate(const Measurement &m) { return m.flops / median(m.seconds) * 1e-9; }
  double peak(const Measurement &m) const { return median(ceiling_of(m.kernel, run_.ceilings)->rates); }

  /// The bound of the machine on a case, in GFLOP/s.
  double bound(const Measurement &m) const { return std::min(peak(m), bandwidth_ * intensity(m)); }

  void set_axes() {
    double min_x = 1e300, max_x = 0, min_y = 1e300, max_y = 0;
    for (const Measurement *m : points_) {
      min_x = std::min(min_x, intensity(*m)), max_x = std::max({max_x, intensity(*m), peak(*m) / bandwidth_});
      min_y = std::min({min_y, rate(*m), bound(*m)}), max_y = std::max({max_y, rate(*m), peak(*m)});
    }
    x_ = Axis(min_x, max_x, left, right);
    y_ = Axis(min_y, max_y, bottom, top);
  }

  void add_text(const char *of, double x, double y, const char *anchor, const std::string &text) {
    body_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", of, x, y,
                         anchor, svg_text(text));
  }

  void add_path(const char *of, const std::string &d, const char *style) {
    body_ += fmt::format("<path class=\"{}\" d=\"{}\" fill=\"none\" stroke=\"currentColor\" {}/>\n", of, d, style);
  }

  void add_grid() {
    for (double e = x_.low; e <= x_.high; ++e) {
      const double x = x_.place(std::pow(10, e));
      add_path("grid", fmt::format("M{:.1f} {}V{}", x, bottom, top), "stroke-opacity=\"0.15\"");
      add_text("tick", x, bottom + 13, "middle", fmt::format("{:g}", std::pow(10, e)));
    }
    for (double e = y_.low; e <= y_.high; ++e) {
      const double y = y_.place(std::pow(10, e));
      add_path("grid", fmt::format("M{} {:.1f}H{}", left, y, right), "stroke-opacity=\"0.15\"");
      add_text("tick", left - 5, y + 3, "end", fmt::format("{:g}", std::pow(10, e)));
    }
    add_text("axis", 0.5 * (left + right), bottom + 27, "middle", "operations a byte of the tensors");
    add_text("axis", 0, top - 10, "start", "GFLOP/s");
  }

  /// A line of memory up to the highest ceiling of products, and each of these from there on.
  void add_ceilings() {
    double highest = 0;
    for (const Ceiling &ceiling : run_.ceilings) {
      if (ceiling.name == "memory") continue;
      const bool used = std::ranges::any_of(
          points_, [&](const Measurement *m) { return ceiling_of(m->kernel, run_.ceilings) == &ceiling; });
      if (!used) continue;
      const double rate = median(ceiling.rates), ridge = rate / bandwidth_;
      highest = std::max(highest, rate);
      add_path("products", fmt::format("M{:.1f} {:.1f}H{}", std::max(x_.place(ridge), left), y_.place(rate), right),
               "stroke-width=\"1.5\"");
      add_text("products", right, y_.place(rate) - 5, "end", fmt::format("{} products: {:.1f}", ceiling.name, rate));
    }
    const double begin = std::max(std::pow(10, x_.low), std::pow(10, y_.low) / bandwidth_), end = highest / bandwidth_;
    const double x = x_.place(begin), y = y_.place(begin * bandwidth_);
    add_path("memory", fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", x, y, x_.place(end), y_.place(highest)),
             "stroke-width=\"1.5\"");
    const double angle = std::atan2(y_.place(highest) - y, x_.place(end) - x) * 45 / std::atan(1);
    const double at_x = 0.5 * (x + x_.place(end)), at_y = 0.5 * (y + y_.place(highest)) - 5;
    body_ += fmt::format(
        "<text class=\"memory\" x=\"{0:.1f}\" y=\"{1:.1f}\" text-anchor=\"middle\" "
        "transform=\"rotate({2:.1f} {0:.1f} {1:.1f})\">memory: {3:.1f} GB/s</text>\n",
        at_x, at_y, angle, bandwidth_);
  }

  void add_points() {
    for (size_t i = 0; i < points_.size(); ++i) {
      const Measurement &m = *points_[i];
      const double x = x_.place(intensity(m)), y = y_.place(rate(m));
      body_ += fmt::format(
          "<circle class=\"case\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", x, y,
          colors[static_cast<size_t>(ceiling_of(m.kernel, run_.ceilings) - run_.ceilings.data()) % colors.size()]);
      add_text("number", x + 5, y + 11, "start", fmt::format("{}", i + 1));
    }
  }

  void add_line(size_t i, double y) {
    const Measurement &m = *points_[i];
    const std::string part = fmt::format("{:.0f} %", 100 * rate(m) / bound(m));
    add_text("line", 20, y, "end", fmt::format("{}", i + 1));
    add_text("line", 28, y, "start", fmt::format("{}, {}", name_of(m.c), m.kernel));
    add_text("rate", 420, y, "end", fmt::format("{:.1f} GFLOP/s", rate(m)));
    add_text("part", 470, y, "end", part);
    add_text("line", 478, y, "start", peak(m) <= bandwidth_ * intensity(m) ? "of products" : "of memory");
  }

  const BenchRun &run_;
  std::vector<const Measurement *> points_;
  double bandwidth_ = 0;
  Axis x_{1, 10, left, right}, y_{1, 10, bottom, top};
  std::string body_;
};

}  // namespace

std::string roofline_svg(const BenchRun &run) {
  return Roofline(run).text();
}

}  // namespace fa::tool
