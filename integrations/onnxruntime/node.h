// A node of a graph, as far as it is known before tensors are there.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ort.h"

namespace fa_ort {

// Attributes of a node, or their defaults where it has none.
class Attributes {
 public:
  virtual ~Attributes() = default;
  virtual int64_t integer(const char *name, int64_t otherwise) const = 0;
  virtual float number(const char *name, float otherwise) const = 0;
  virtual std::string text(const char *name, const char *otherwise) const = 0;
};

class NodeAttributes : public Attributes {
 public:
  explicit NodeAttributes(const OrtNode *node) : node_(node) {}
  int64_t integer(const char *name, int64_t otherwise) const override;
  float number(const char *name, float otherwise) const override;
  std::string text(const char *name, const char *otherwise) const override;

 private:
  const OrtNode *node_;
};

class KernelAttributes : public Attributes {
 public:
  explicit KernelAttributes(const OrtKernelInfo *info) : info_(info) {}
  int64_t integer(const char *name, int64_t otherwise) const override;
  float number(const char *name, float otherwise) const override;
  std::string text(const char *name, const char *otherwise) const override;

 private:
  const OrtKernelInfo *info_;
};

// An input or output of a node.
struct Value {
  bool present = false;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  std::vector<int64_t> shape;  // a negative length is not known; empty: nothing is known, or a scalar

  // Length i, counted from the end where i is negative; -1 where it is not known.
  int64_t length(int i) const;
};

struct Node {
  std::string domain, op, name, provider;
  int version = 0;
  std::vector<Value> inputs, outputs;

  // Those past the node's own are absent.
  const Value &input(size_t i) const;
  const Value &output(size_t i) const;
};

Node read_node(const OrtNode *node);

const char *type_name(ONNXTensorElementDataType type);

}  // namespace fa_ort
