// griddepcontrol (PTX ISA 9.7.13.13). A grid that depends on this one may start when all of this one's blocks have
// executed launch_dependents or ended; it waits at wait until this one has ended, when its writes are visible.
#include "exec/grid_dependency.h"

#include "exec/dispatch.h"
#include "exec/launch.h"

namespace fa::emu {
namespace {

/// The code after it is as late as a GPU may be, so that a dependent that does not wait shows: the last blocks
/// stay here until nothing else can go on.
void launch_dependents(Warp &warp, const Instruction &, uint32_t) {
  Cta &cta = *warp.cta;
  Launch &launch = *cta.launch;
  Trigger &trigger = cta.state<Trigger>();
  if (!trigger.done) {
    trigger.done = true;
    launch.trigger(1);
  }
  if (!launch.late || !launch.all_begun()) return;
  launch.held = true;
  warp.pause = Pause::retry;
}

void wait(Warp &warp, const Instruction &, uint32_t) {
  const Launch &launch = *warp.cta->launch;
  if (launch.prerequisites && !launch.prerequisites()) warp.pause = Pause::retry;
}

bool decode_griddepcontrol(Decoder &d) {
  d.expect_operands(0, 0);
  d.pausing();
  if (d.has("launch_dependents")) return d.run(launch_dependents);
  return d.has("wait") && d.run(wait);
}

const Registration registration{{"griddepcontrol", decode_griddepcontrol}};

}  // namespace

void end_triggers(Cluster &cluster) {
  uint64_t ended = 0;
  for (Cta &cta : cluster.ctas) ended += !cta.state<Trigger>().done;
  cluster.launch->trigger(ended);
}

}  // namespace fa::emu
