// Blocks and clusters that take over others of their grid (clusterlaunchcontrol), with faults by number.
namespace {

__device__ unsigned shared_address(const void *at) { return static_cast<unsigned>(__cvta_generic_to_shared(at)); }

__device__ void initialise(unsigned long long *barrier) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(shared_address(barrier))
               : "memory");
}
__device__ void expect(unsigned long long *barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
__device__ void wait(unsigned long long *barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(
          shared_address(barrier)),
      "r"(parity)
      : "memory");
}
__device__ void request(uint4 *response, unsigned long long *barrier) {
  asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
  asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(
                   shared_address(response)),
               "r"(shared_address(barrier))
               : "memory");
}
__device__ void request_for_all(uint4 *response, unsigned long long *barrier) {
  asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
  asm volatile(
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 "
      "[%0], [%1];" ::"r"(shared_address(response)),
      "r"(shared_address(barrier))
      : "memory");
}
/// Whether a block was taken over; where it is.
__device__ bool taken(const uint4 *response, unsigned &x, unsigned &y, unsigned &z) {
  unsigned success;
  asm volatile(
      "{\n.reg .pred p;\n.reg .b128 r;\nld.shared.b128 r, [%4];\n"
      "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r;\nselp.u32 %3, 1, 0, p;\n"
      "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%0, %1, %2, _}, r;\n}"
      : "+r"(x), "+r"(y), "+r"(z), "=r"(success)
      : "r"(shared_address(response))
      : "memory");
  return success;
}
/// The same, one coordinate at a time.
__device__ bool taken_by_coordinate(const uint4 *response, unsigned &x, unsigned &y, unsigned &z) {
  unsigned success;
  asm volatile(
      "{\n.reg .pred p;\n.reg .b128 r;\nld.shared.b128 r, [%4];\n"
      "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r;\nselp.u32 %3, 1, 0, p;\n"
      "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, r;\n"
      "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %1, r;\n"
      "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 %2, r;\n}"
      : "+r"(x), "+r"(y), "+r"(z), "=r"(success)
      : "r"(shared_address(response))
      : "memory");
  return success;
}
__device__ void meet_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

/// Each of 32 threads counts the tile of a block.
__device__ void process(int *done, unsigned x, unsigned y, unsigned z) {
  unsigned tile = x + gridDim.x * (y + gridDim.y * z);
  atomicAdd(&done[tile * 32 + threadIdx.x % 32], 1);
}

}  // namespace

/// faults: 1 the response is read before the mbarrier's phase has ended, 2 a request follows one that has failed, 3 the
/// next request may overtake those who still read the response, 4 8 bytes are expected, 5 the last response is not
/// waited for, 6 as 2, by another warp's thread. done[begun] counts the blocks that run.
extern "C" __global__ void blocks(int *done, int fault, int begun) {
  __shared__ uint4 response;
  __shared__ unsigned long long barrier;
  unsigned x = blockIdx.x, y = blockIdx.y, z = blockIdx.z, phase = 0;
  bool first = threadIdx.x == 0;
  if (first) {
    initialise(&barrier);
    atomicAdd(&done[begun], 1);
  }
  __syncthreads();
  for (bool more = true; more; phase ^= 1) {
    if (first) {
      request(&response, &barrier);
      expect(&barrier, fault == 4 ? 8 : 16);
    }
    process(done, x, y, z);
    if (fault == 5 && x == gridDim.x / 2) return;
    if (fault != 1) wait(&barrier, phase);
    more = taken(&response, x, y, z);
    asm volatile("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;" ::: "memory");
    if (fault != 3) __syncthreads();
    if (!more && ((fault == 2 && first) || (fault == 6 && threadIdx.x == blockDim.x - 1))) {
      request(&response, &barrier);
      expect(&barrier, 16);
      wait(&barrier, phase ^ 1);
    }
  }
}

/// Clusters of two blocks in x: the first one asks for both. faults: 1 only its own block waits, 2 the other one's
/// response may be overtaken by the next one.
extern "C" __global__ void __cluster_dims__(2, 1, 1) clusters(int *done, int fault, int begun) {
  __shared__ uint4 response;
  __shared__ unsigned long long barrier;
  unsigned rank = blockIdx.x & 1, x = blockIdx.x - rank, y = blockIdx.y, z = blockIdx.z, phase = 0;
  bool first = threadIdx.x == 0;
  if (first) {
    initialise(&barrier);
    atomicAdd(&done[begun], 1);
  }
  for (bool more = true; more; phase ^= 1) {
    if (first) expect(&barrier, 16);
    if (fault != 2 || phase == 0) meet_cluster();
    if (first && rank == 0) request_for_all(&response, &barrier);
    process(done, x + rank, y, z);
    if (fault != 1 || rank == 0) wait(&barrier, phase);
    more = taken_by_coordinate(&response, x, y, z);
    asm volatile("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;" ::: "memory");
    __syncthreads();
  }
  meet_cluster();
}
