// The barrier of a cluster's threads: barrier.cluster.arrive and .wait (PTX ISA 9.7.13.4).
#pragma once

#include <cstdint>

#include "exec/cta.h"

namespace fa::emu {

/// Per warp of the cluster.
struct ClusterArrivals : State {
  uint32_t arrived = 0;  // lanes, in the phase that is not complete yet
  uint32_t passed = 0;   // lanes whose phase is complete, and that have not waited yet
  uint32_t waiting = 0;  // lanes among the arrived ones that are blocked
};

/// Ends the phase if all threads of the cluster that are alive have arrived.
void complete_cluster_barrier(Cluster &cluster);

}  // namespace fa::emu
