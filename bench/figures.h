// The figures that the project promises: which calls, against which ceiling, and how much of it is the goal.
#pragma once

#include <string>
#include <vector>

#include "peak.h"
#include "workload.h"

namespace fa::bench {

/// The reference of a figure, and the unit in which it is given.
enum class Measure {
  of_peak,           // percent of the products' ceiling of as many threads
  of_twice_one,      // two threads: percent of twice the speed of one
  of_plain,          // percent of the plain kernel's speed, for each attended pair
  points_below_128,  // percent of peak at head dimension 128 less that at this one
  of_read,           // percent of the speed at which as many threads merely read the keys and values
  of_copy,           // percent of the speed at which as many threads copy as many bytes
  of_one_token,      // percent of the time that one token takes
  nanoseconds        // of one call
};

/// The measure's name among a benchmark's counters.
const char *measure_name(Measure measure);

/// True where the figure is about products, whose ceiling is measured as well.
bool is_of_products(Measure measure);

/// True where calls alternate with those of another case.
bool has_reference(Measure measure);

/// True where less is better.
bool less_is_better(Measure measure);

struct Figure {
  std::string name;
  Measure measure = Measure::of_peak;
  Case subject;
  Case reference;  // where the measure has one
  Peak peak = Peak::f32;
  double goal = 0;  // 0: reported, nothing promised
};

/// All figures of this machine, goals already those of its kind of CPU.
std::vector<Figure> figures();

}  // namespace fa::bench
