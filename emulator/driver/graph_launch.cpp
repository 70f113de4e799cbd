// The launch of an executable graph: its steps behind a stream's operations.
#include "driver/graph.h"
#include "driver/state.h"
#include "driver/submit.h"

namespace fa::emu::driver {

void enqueue_steps(Stream &stream, GraphExec &exec) {
  Context *context = stream.context;
  std::vector<Done> begin = order_of(stream), ends;
  begin.push_back(exec.last);
  std::vector<Done> done;
  for (const GraphExec::Step &step : exec.steps) {
    std::vector<Done> after = step.after.empty() ? begin : std::vector<Done>();
    for (size_t one : step.after) after.push_back(done[one]);
    const EventWork *event = std::get_if<EventWork>(&step.work);
    if (event && !event->record) after.push_back(event->event->recorded);
    // Memory of a graph is given back with the graph.
    bool idle = event || !step.enabled || std::holds_alternative<FreeWork>(step.work);
    Work work = idle ? Work() : step.work;
    Done last = step.after.size() == 1 ? done[step.after[0]] : nullptr;
    done.push_back(enqueue_work(stream, work, std::move(after), last));
    if (event && event->record) event->event->recorded = done.back();
  }
  ends = done;
  ends.insert(ends.end(), begin.begin(), begin.end());
  exec.last = stream.last = queue().push(context, std::move(ends), {});
}

}  // namespace fa::emu::driver
