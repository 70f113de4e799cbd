// An operator that libfa computes: one node of it, from its attributes.
#pragma once
#include <memory>
#include <string>

#include "call.h"
#include "node.h"

namespace fa_ort {

class Operator {
 public:
  virtual ~Operator() = default;

  // Why libfa does not compute the node; "" where it does.
  virtual std::string refusal(const Node &node) const = 0;

  // Computes a node that has no refusal. Throws BadInput, fa::Error, std::bad_alloc or std::runtime_error.
  virtual void compute(Call *call) const = 0;
};

std::unique_ptr<Operator> make_attention(const Attributes &attributes);              // ONNX's
std::unique_ptr<Operator> make_group_query_attention(const Attributes &attributes);  // com.microsoft's
std::unique_ptr<Operator> make_multi_head_attention(const Attributes &attributes);   // com.microsoft's

// Why an op of these types and head dimensions cannot be created; "" where it can. A head dimension of -1 is not known.
std::string refusal_of_op(const fa_desc &desc);

}  // namespace fa_ort
