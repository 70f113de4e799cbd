// Structures that programs hand to the driver: layouts of the binary interface, on 64-bit machines. Field names are
// ours.
#pragma once

#include "driver/cuda.h"

union CudaAttributeValue {
  char bytes[64];
  int number;
  unsigned dimensions[3];
  struct {
    CUevent event;
    int flags, at_block_start;
  } event;
};
struct CudaLaunchAttribute {
  int id;  // LaunchAttribute
  char pad[4];
  CudaAttributeValue value;
};
static_assert(sizeof(CudaLaunchAttribute) == 72);

struct CudaLaunchConfig {
  unsigned grid[3], block[3];
  unsigned shared;
  CUstream stream;
  CudaLaunchAttribute *attributes;
  unsigned attribute_count;
};
static_assert(sizeof(CudaLaunchConfig) == 56);

struct CudaCopyEnd2D {
  size_t x, y;
  int memory_type;
  const void *host;
  CUdeviceptr device;
  void *array;
  size_t pitch;
};
struct CudaCopy2D {
  CudaCopyEnd2D source, destination;
  size_t width, height;
};
static_assert(sizeof(CudaCopy2D) == 128);

struct CudaCopyEnd3D {
  size_t x, y, z, level;
  int memory_type;
  const void *host;
  CUdeviceptr device;
  void *array;
  void *context;  // of cuMemcpy3DPeer; else reserved
  size_t pitch, height;
};
struct CudaCopy3D {
  CudaCopyEnd3D source, destination;
  size_t width, height, depth;
};
static_assert(sizeof(CudaCopy3D) == 200);

struct CudaKernelNode {
  CUfunction function;
  unsigned grid[3], block[3];
  unsigned shared;
  void **parameters, **extra;
  CUkernel kernel;  // from here on: version 2
  CUcontext context;
};
static_assert(sizeof(CudaKernelNode) == 72);

struct CudaMemsetNode {
  CUdeviceptr address;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};
struct CudaHostNode {
  CUhostFn function;
  void *argument;
};

struct CudaMemLocation {
  int type;  // MemLocation
  int id;
};
struct CudaPoolProperties {
  int allocation_type, handle_types;
  CudaMemLocation location;
  void *security;
  size_t max_bytes;
  unsigned short usage;
  unsigned char reserved[54];
};
static_assert(sizeof(CudaPoolProperties) == 88);
struct CudaAccess {
  CudaMemLocation location;
  int flags;
};
struct CudaMemoryProperties {
  int allocation_type, handle_types;
  CudaMemLocation location;
  void *security;
  unsigned char compression, direct;
  unsigned short usage;
  unsigned char reserved[4];
};
static_assert(sizeof(CudaMemoryProperties) == 32);

struct CudaAllocateNode {
  CudaPoolProperties pool;
  const CudaAccess *access;
  size_t access_count, bytes;
  CUdeviceptr address;  // set by the driver
};
static_assert(sizeof(CudaAllocateNode) == 120);

/// One entry of cuStreamBatchMemOp's array.
struct CudaBatchEntry {
  int type;
  CUdeviceptr address;
  uint64_t value;
  unsigned flags;
  CUdeviceptr alias;
  uint64_t reserved;
};
static_assert(sizeof(CudaBatchEntry) == 48);

/// How the copies of a batch read their sources, and where both ends are.
struct CudaCopyAttributes {
  int order;
  CudaMemLocation from, to;
  unsigned flags;
};
static_assert(sizeof(CudaCopyAttributes) == 24);

/// cuGraphAddNode's parameters: a kind, and room for the kind's own.
struct CudaGraphNode {
  int type;  // NodeType
  int reserved[3];
  union {
    long long room[29];
    CudaKernelNode kernel;
    struct {
      int flags, reserved;
      CUcontext context;
      CudaCopy3D copy;
    } copy;
    CudaMemsetNode set;
    CudaHostNode host;
    CUgraph child;
    CUevent event;
    CudaAllocateNode allocate;
    CUdeviceptr free;
  };
  long long reserved_end;
};
static_assert(sizeof(CudaGraphNode) == 256);

struct CudaGraphEdge {
  unsigned char from_port, to_port, type, reserved[5];
};
struct CudaGraphUpdateInfo {
  int result;
  CUgraphNode error_node, error_from_node;
};
struct CudaGraphInstantiate {
  cuuint64_t flags;
  CUstream upload;
  CUgraphNode error_node;
  int result;
};
