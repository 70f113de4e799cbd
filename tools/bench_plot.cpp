#include "bench_plot.h"

#include <fmt/format.h>

#include <algorithm>

#include "svg.h"

namespace fa::tool {
namespace {

constexpr int64_t width = 660, bars_x = 190, bars_width = 290;  // numbers are behind the bars
constexpr int64_t bar = 9, row_gap = 8, heading_height = 24, foot_height = 26;

bool is_bound_by_memory(const Measurement &m) {
  return !m.plain.empty() || m.flops == 0;
}

/// GB/s or GFLOP/s of calls that take so long.
double rate_of(const Measurement &m, double seconds) {
  return (is_bound_by_memory(m) ? m.bytes : m.flops) / seconds * 1e-9;
}

double plain_rate(const Measurement &m) {
  return m.plain.empty() ? 0 : m.plain_bytes / median(m.plain_seconds) * 1e-9;
}

double fastest_of(const Measurement &m) {
  return std::max(rate_of(m, median_interval(m.seconds).low), plain_rate(m));
}

class Plot {
 public:
  Plot(const BenchRun &run, const std::vector<Change> &changes) : run_(run) {
    for (const Change &change : changes) rows_.push_back({change.current, &change});
    if (changes.empty()) {
      for (const Measurement &m : run.measurements) rows_.push_back({&m, nullptr});
    }
    for (const Row &row : rows_) {
      const double before = row.change ? fastest_of(*row.change->base) : 0;
      double &largest = largest_[is_bound_by_memory(*row.now)];
      largest = std::max({largest, fastest_of(*row.now), before});
    }
  }

  std::string text() {
    std::string above;
    for (const Row &row : rows_) {
      const Measurement &m = *row.now;
      const std::string plain = m.plain.empty() ? "" : fmt::format("; tick: {}", m.plain);
      const std::string heading =
          fmt::format("{}, {}: {}{}", kind_of(m.c), m.kernel, is_bound_by_memory(m) ? "GB/s" : "GFLOP/s", plain);
      if (heading != above) add_heading(above = heading);
      add_row(row);
    }
    const std::string foot = fmt::format("{}, libfa {}. Bar: median; line: its 95 % interval{}", run_.cpu, run_.version,
                                         !rows_.empty() && rows_.front().change ? "; gray: the baseline" : "");
    body_ += fmt::format("<text x=\"0\" y=\"{}\" opacity=\"0.8\">{}</text>\n", y_ + 14, svg_text(foot));
    return svg_begin("fa-plot", width, y_ + foot_height, "fa bench") + "<g fill=\"currentColor\">\n" + body_ +
           "</g>\n</svg>\n";
  }

 private:
  struct Row {
    const Measurement *now;
    const Change *change;  // nullptr without a baseline
  };

  void add_heading(const std::string &heading) {
    y_ += heading_height;
    body_ += fmt::format("<text class=\"heading\" x=\"0\" y=\"{}\" font-weight=\"600\">{}</text>\n", y_ - 8,
                         svg_text(heading));
  }

  double place(const Measurement &m, double rate) const {
    return static_cast<double>(bars_width) * rate / largest_[is_bound_by_memory(m)];
  }

  void add_bar(const char *of, const char *fill, const Measurement &m, const std::string &note) {
    const Interval seconds = median_interval(m.seconds);
    const double middle = rate_of(m, median(m.seconds)), low = rate_of(m, seconds.high), high = rate_of(m, seconds.low);
    const double x = static_cast<double>(bars_x), center = static_cast<double>(y_) + 0.5 * bar;
    body_ += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" {}/>\n", of, bars_x, y_,
                         place(m, middle), bar, fill);
    body_ += fmt::format("<path class=\"interval\" d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"currentColor\"/>\n",
                         x + place(m, low), center, x + place(m, high));
    body_ += fmt::format("<text class=\"rate\" x=\"{:.1f}\" y=\"{}\">{:.1f}{}</text>\n",
                         x + std::max(place(m, high), place(m, plain_rate(m))) + 6, y_ + bar - 1, middle, note);
    y_ += bar + 1;
  }

  void add_row(const Row &row) {
    const Measurement &m = *row.now;
    const int64_t top = y_;
    std::string note;
    if (row.change) {
      add_bar("before", "fill-opacity=\"0.3\"", *row.change->base, "");
      note = fmt::format(" (time {:+.1f} %: {})", 100 * (row.change->ratio.estimate - 1),
                         verdict_name(row.change->verdict));
    }
    add_bar("now", "fill=\"#00897b\"", m, note);
    body_ += fmt::format("<text class=\"shape\" x=\"0\" y=\"{}\">{}</text>\n", top + bar - 1, shape_of(m.c));
    if (!m.plain.empty())
      body_ += fmt::format("<path class=\"plain\" d=\"M{:.1f} {}V{}\" stroke=\"currentColor\"/>\n",
                           static_cast<double>(bars_x) + place(m, plain_rate(m)), top - 2, y_ + 1);
    y_ += row_gap;
  }

  const BenchRun &run_;
  std::vector<Row> rows_;
  double largest_[2] = {0, 0};  // GFLOP/s, GB/s
  std::string body_;
  int64_t y_ = 0;
};

}  // namespace

std::string bench_svg(const BenchRun &run, const std::vector<Change> &changes) {
  return Plot(run, changes).text();
}

}  // namespace fa::tool
