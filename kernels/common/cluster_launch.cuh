// Taking over blocks of the same grid that have not begun (PTX ISA, "clusterlaunchcontrol.try_cancel"): hardware hands
// out the work tiles of a grid that has a block for each.
#pragma once

#include "common/mbarrier.cuh"

namespace fa::kernels {

/// The answer to a request, for clusterlaunchcontrol_query_cancel.
struct alignas(16) CancelResponse {
  uint4 words;
};

/// Asks for a block that has not begun, which then never does; by one thread. The mbarrier's phase gets the response's
/// bytes. The threads that read an earlier response have fenced the async proxy since.
__device__ inline void clusterlaunchcontrol_try_cancel(CancelResponse *response, uint64_t *barrier) {
  mbarrier_arrive_expect_tx(shared_address(barrier), sizeof(CancelResponse));
  asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(
                   shared_address(response)),
               "r"(shared_address(barrier))
               : "memory");
}

/// The number of the block, in a grid of one dimension; `none` where there was no other.
__device__ inline uint32_t clusterlaunchcontrol_query_cancel(const CancelResponse *response, uint32_t none) {
  uint32_t block = none;
  asm volatile(
      "{\n.reg .pred taken;\n.reg .b128 response;\nld.shared.b128 response, [%1];\n"
      "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 taken, response;\n"
      "@taken clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, response;\n}"
      : "+r"(block)
      : "r"(shared_address(response))
      : "memory");
  return block;
}

}  // namespace fa::kernels
