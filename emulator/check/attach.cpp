// Chooses observers by the options: counters, checks, and a timeline with either.
#include "check/attach.h"

#include "check/checker.h"
#include "check/footprint.h"
#include "check/recording.h"

namespace fa::emu::check {

void attach(Launch &launch) {
  const bool records = launch.options.timeline;
  if (records) launch.timeline = std::make_shared<Timeline>(*launch.program);
  if (!launch.options.check) {
    launch.make_observer = [records](Launch &watched) -> std::unique_ptr<Observer> {
      if (records) return std::make_unique<Recording<Counting>>(watched, watched);
      return std::make_unique<Counting>(watched);
    };
    return;
  }
  auto checks = std::make_shared<LaunchChecks>(launch);
  launch.footprint = [checks] { return checks->global.take(); };
  launch.make_observer = [checks, records](Launch &watched) -> std::unique_ptr<Observer> {
    if (records) return std::make_unique<Recording<Checker>>(watched, checks);
    return std::make_unique<Checker>(checks);
  };
}

}  // namespace fa::emu::check
