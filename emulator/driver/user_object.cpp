// User objects: things of a program that live as long as a graph needs them; counted, and destroyed by the program's
// own function when the last reference has gone.
#include <algorithm>

#include "driver/graph.h"

using namespace fa::emu::driver;

namespace fa::emu::driver {
namespace {

struct UserObject : Handled {
  void *object = nullptr;
  CUhostFn destroy = nullptr;
  uint64_t references = 0;
};

constexpr unsigned move_references = 1;  // CU_GRAPH_USER_OBJECT_MOVE

void give_up(UserObject &object, uint64_t count) {
  require(count >= 1 && count <= object.references, "more references than there are");
  object.references -= count;
  if (object.references != 0) return;
  object.destroy(object.object);
  make_dead(&object);
  delete &object;
}

}  // namespace
}  // namespace fa::emu::driver

EMU_API CUresult cuUserObjectCreate(void **handle, void *pointer, CUhostFn destroy, unsigned references,
                                    unsigned flags) {
  return api("cuUserObjectCreate", [&] {
    Lock lock(process().mutex);
    constexpr unsigned no_destructor_sync = 1;
    require(handle != nullptr && destroy != nullptr && references >= 1, "no place, no function, or no references");
    require(flags == no_destructor_sync, "flags must be CU_USER_OBJECT_NO_DESTRUCTOR_SYNC");
    auto *object = new UserObject{{}, pointer, destroy, references};
    make_alive(object);
    *handle = object;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuUserObjectRetain(void *handle, unsigned count) {
  return api("cuUserObjectRetain", [&] {
    Lock lock(process().mutex);
    require(count >= 1, "no references");
    object<UserObject>(handle).references += count;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuUserObjectRelease(void *handle, unsigned count) {
  return api("cuUserObjectRelease", [&] {
    Lock lock(process().mutex);
    give_up(object<UserObject>(handle), count);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphRetainUserObject(CUgraph graph, void *handle, unsigned count, unsigned flags) {
  return api("cuGraphRetainUserObject", [&] {
    Lock lock(process().mutex);
    require(count >= 1 && flags <= move_references, "no references, or unknown flags");
    UserObject *object = &fa::emu::driver::object<UserObject>(handle);
    if (!(flags & move_references)) object->references += count;
    graph_of(graph)->kept.emplace_back(object, [count](void *kept) {
      Lock inner(process().mutex);
      give_up(*static_cast<UserObject *>(kept), count);
    });
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphReleaseUserObject(CUgraph graph, void *handle, unsigned count) {
  return api("cuGraphReleaseUserObject", [&] {
    Lock lock(process().mutex);
    require(count >= 1, "no references");
    auto &kept = graph_of(graph)->kept;
    auto found = std::find_if(kept.begin(), kept.end(), [&](const auto &one) { return one.get() == handle; });
    require(found != kept.end(), "the graph does not keep that object");
    kept.erase(found);
    return CUDA_SUCCESS;
  });
}
