#include "node.h"

#include "host.h"

namespace fa_ort {
namespace {

const OrtOpAttr *find(const OrtNode *node, const char *name, OrtOpAttrType type) {
  const OrtOpAttr *attribute = nullptr;
  OrtStatus *status = host().Node_GetAttributeByName(node, name, &attribute);
  if (status) {
    host().ReleaseStatus(status);  // there is none of this name
    return nullptr;
  }
  OrtOpAttrType found = type;
  if (attribute) check(host().OpAttr_GetType(attribute, &found));
  return found == type ? attribute : nullptr;
}

template <class T>
T scalar(const OrtNode *node, const char *name, OrtOpAttrType type, T otherwise) {
  const OrtOpAttr *attribute = find(node, name, type);
  if (!attribute) return otherwise;
  T value;
  size_t size = 0;
  check(host().ReadOpAttr(attribute, type, &value, sizeof value, &size));
  return value;
}

// false where a kernel has no such attribute.
bool found(OrtStatus *status) {
  if (status) host().ReleaseStatus(status);
  return !status;
}

Value read_value(const OrtValueInfo *info) {
  Value value;
  if (!info) return value;
  const OrtTypeInfo *type = nullptr;
  check(host().GetValueInfoTypeInfo(info, &type));
  const OrtTensorTypeAndShapeInfo *tensor = nullptr;
  if (type) check(host().CastTypeInfoToTensorInfo(type, &tensor));
  value.present = true;
  if (!tensor) return value;
  check(host().GetTensorElementType(tensor, &value.type));
  size_t rank = 0;
  check(host().GetDimensionsCount(tensor, &rank));
  value.shape.resize(rank);
  check(host().GetDimensions(tensor, value.shape.data(), rank));
  return value;
}

const Value &at(const std::vector<Value> &values, size_t i) {
  static const Value absent;
  return i < values.size() ? values[i] : absent;
}

}  // namespace

int64_t NodeAttributes::integer(const char *name, int64_t otherwise) const {
  return scalar<int64_t>(node_, name, ORT_OP_ATTR_INT, otherwise);
}

float NodeAttributes::number(const char *name, float otherwise) const {
  return scalar<float>(node_, name, ORT_OP_ATTR_FLOAT, otherwise);
}

std::string NodeAttributes::text(const char *name, const char *otherwise) const {
  const OrtOpAttr *attribute = find(node_, name, ORT_OP_ATTR_STRING);
  if (!attribute) return otherwise;
  std::string text(64, '\0');
  size_t size = 0;
  OrtStatus *status = host().ReadOpAttr(attribute, ORT_OP_ATTR_STRING, text.data(), text.size(), &size);
  if (status && size > text.size()) {
    host().ReleaseStatus(status);
    text.resize(size);
    status = host().ReadOpAttr(attribute, ORT_OP_ATTR_STRING, text.data(), text.size(), &size);
  }
  check(status);
  text.resize(size);
  return text.c_str();
}

int64_t KernelAttributes::integer(const char *name, int64_t otherwise) const {
  int64_t value;
  return found(host().KernelInfoGetAttribute_int64(info_, name, &value)) ? value : otherwise;
}

float KernelAttributes::number(const char *name, float otherwise) const {
  float value;
  return found(host().KernelInfoGetAttribute_float(info_, name, &value)) ? value : otherwise;
}

std::string KernelAttributes::text(const char *name, const char *otherwise) const {
  size_t size = 0;
  if (!found(host().KernelInfoGetAttribute_string(info_, name, nullptr, &size))) return otherwise;
  std::string text(size, '\0');
  check(host().KernelInfoGetAttribute_string(info_, name, text.data(), &size));
  return text.c_str();
}

int64_t Value::length(int i) const {
  const int rank = int(shape.size());
  const int from_start = i < 0 ? rank + i : i;
  return from_start >= 0 && from_start < rank ? shape[from_start] : -1;
}

const Value &Node::input(size_t i) const {
  return at(inputs, i);
}

const Value &Node::output(size_t i) const {
  return at(outputs, i);
}

Node read_node(const OrtNode *node) {
  Node result;
  const auto text = [&](OrtStatus *(*read)(const OrtNode *, const char **)) {
    const char *value = nullptr;
    check(read(node, &value));
    return std::string(value ? value : "");
  };
  result.op = text(host().Node_GetOperatorType);
  result.domain = text(host().Node_GetDomain);
  result.name = text(host().Node_GetName);
  result.provider = text(host().Node_GetEpName);
  check(host().Node_GetSinceVersion(node, &result.version));
  const auto values = [&](auto count, auto get) {
    size_t number = 0;
    check(count(node, &number));
    std::vector<const OrtValueInfo *> infos(number);
    check(get(node, infos.data(), number));
    std::vector<Value> read;
    for (const OrtValueInfo *info : infos) read.push_back(read_value(info));
    return read;
  };
  result.inputs = values(host().Node_GetNumInputs, host().Node_GetInputs);
  result.outputs = values(host().Node_GetNumOutputs, host().Node_GetOutputs);
  return result;
}

const char *type_name(ONNXTensorElementDataType type) {
  static constexpr const char *names[] = {"an unknown type", "float32",  "uint8",       "int8",   "uint16",
                                          "int16",           "int32",    "int64",       "string", "bool",
                                          "float16",         "float64",  "uint32",      "uint64", "complex64",
                                          "complex128",      "bfloat16", "float8e4m3fn"};
  const size_t i = size_t(type);
  return i < sizeof names / sizeof *names ? names[i] : "another type";
}

}  // namespace fa_ort
