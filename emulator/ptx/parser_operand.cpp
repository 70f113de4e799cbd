// Operands: registers, numbers, addresses, vectors, symbols.
#include <utility>

#include "ptx/parser_impl.h"

namespace fa::emu::ptx {
namespace {

constexpr int deepest = 8;  // operands inside operands; PTX itself needs three

}  // namespace

bool Parser::find_register(std::string_view name, Operand &operand) const {
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') digits--;
  for (size_t s = scopes_.size(); s-- > 0;) {
    const Scope &scope = scopes_[s];
    if (auto found = scope.registers.find(name); found != scope.registers.end()) {
      operand.index = found->second;
      return true;
    }
    if (scope.runs.empty()) continue;
    for (size_t split = digits; split < name.size() && name.size() - split < 10; split++) {
      auto found = scope.runs.find(name.substr(0, split));
      if (found == scope.runs.end()) continue;
      uint64_t number = 0;
      for (char c : name.substr(split)) number = number * 10 + static_cast<uint64_t>(c - '0');
      const RegisterRun &run = function_->runs[found->second];
      if (number >= run.count) continue;
      operand.index = run.first + static_cast<Index>(number);
      return true;
    }
  }
  return false;
}

bool Parser::find_symbol(std::string_view name, Operand &operand) const {
  operand.kind = OperandKind::variable;
  for (size_t s = scopes_.size(); s-- > 0;) {
    auto found = scopes_[s].variables.find(name);
    if (found == scopes_[s].variables.end()) continue;
    operand.index = found->second;
    return true;
  }
  if (auto found = module_.variable_index.find(name); found != module_.variable_index.end()) {
    operand.index = found->second;
    return true;
  }
  operand.kind = OperandKind::function;
  auto found = module_.function_index.find(name);
  if (found == module_.function_index.end()) return false;
  operand.index = found->second;
  return true;
}

int64_t Parser::displacement() {
  uint64_t sum = 0;
  for (;;) {
    char sign = at_.peek();
    if (sign != '+' && sign != '-') return static_cast<int64_t>(sum);
    at_.expect(sign);
    at_.peek();
    if (!at_.at_number()) at_.fail("expected a number behind '" + std::string(1, sign) + "'");
    uint64_t value = static_cast<uint64_t>(at_.number().bits);
    sum += sign == '+' ? value : 0 - value;
  }
}

Operand Parser::named_operand() {
  Operand operand;
  operand.text = at_.word_with_component();
  operand.kind = OperandKind::reg;
  if (operand.text == "_") {
    operand.kind = OperandKind::sink;
  } else if (find_register(operand.text, operand)) {
    operand.type = function_->registers[operand.index];
  } else if (operand.text[0] == '%') {
    auto found = special_index_.find(operand.text.substr(1));
    if (found == special_index_.end()) at_.fail("there is no register " + std::string(operand.text));
    operand.kind = OperandKind::special;
    operand.index = found->second;
  } else if (operand.text == "WARP_SZ") {
    operand.kind = OperandKind::immediate;
    operand.value = 32;
  } else if (find_symbol(operand.text, operand)) {
    operand.value = displacement();
  } else {
    operand.kind = OperandKind::name;  // a label that comes later, most often
  }
  return operand;
}

Operand Parser::address() {
  Operand operand;
  operand.kind = OperandKind::address;
  size_t first = pending_.size();
  depth_++;
  Operand base = this->operand();
  depth_--;
  bool usable = base.kind == OperandKind::reg || base.kind == OperandKind::immediate ||
                base.kind == OperandKind::variable || base.kind == OperandKind::function;
  if (!usable) at_.fail("an address of '" + std::string(base.text) + "', which is no register, number or variable");
  operand.value = std::exchange(base.value, 0);
  if (base.kind == OperandKind::immediate) std::swap(operand.value, base.value);
  operand.value = static_cast<int64_t>(static_cast<uint64_t>(operand.value) + static_cast<uint64_t>(displacement()));
  pending_.push_back(base);
  pending_.resize(first + 1);
  if (at_.accept(',')) {
    Operand rest;
    children(rest, ']');
    // The base and the text after it must be adjacent.
    std::vector<Operand> all{base};
    for (uint32_t i = 0; i < rest.child_count; i++) all.push_back(function_->operands[rest.first_child + i]);
    operand.first_child = push(all);
    operand.child_count = static_cast<uint32_t>(all.size());
  } else {
    at_.expect(']');
    operand.first_child = push({base});
    operand.child_count = 1;
  }
  pending_.resize(first);
  return operand;
}

Index Parser::push(const std::vector<Operand> &operands) {
  Index first = static_cast<Index>(function_->operands.size());
  function_->operands.insert(function_->operands.end(), operands.begin(), operands.end());
  return first;
}

void Parser::children(Operand &parent, char end) {
  size_t first = pending_.size();
  depth_++;
  if (!at_.accept(end)) {
    do {
      Operand child = operand();
      pending_.push_back(child);
    } while (at_.accept(','));
    at_.expect(end);
  }
  depth_--;
  parent.first_child = static_cast<Index>(function_->operands.size());
  parent.child_count = static_cast<uint32_t>(pending_.size() - first);
  function_->operands.insert(function_->operands.end(), pending_.begin() + static_cast<ptrdiff_t>(first),
                             pending_.end());
  pending_.resize(first);
}

Operand Parser::operand() {
  if (depth_ > deepest) at_.fail("operands nested too deeply");
  Operand operand;
  switch (at_.peek()) {
    case '{':
      at_.expect('{');
      operand.kind = OperandKind::vector;
      children(operand, '}');
      return operand;
    case '(':
      at_.expect('(');
      operand.kind = OperandKind::list;
      children(operand, ')');
      return operand;
    case '[':
      at_.expect('[');
      return address();
    case '!':
      at_.expect('!');
      operand = named_operand();
      operand.negated = true;
      return operand;
    default:
      break;
  }
  if (at_.at_number()) {
    Literal literal = at_.number();
    operand.kind = OperandKind::immediate;
    operand.value = literal.bits;
    operand.type = literal.type;
    return operand;
  }
  operand = named_operand();
  if (at_.peek() == '|') {
    at_.expect('|');
    Operand second = named_operand();
    bool registers = (operand.kind == OperandKind::reg || operand.kind == OperandKind::sink) &&
                     (second.kind == OperandKind::reg || second.kind == OperandKind::sink);
    if (!registers) at_.fail("both sides of '|' must be registers");
    operand.second = second.kind == OperandKind::reg ? second.index : none;
  }
  return operand;
}

}  // namespace fa::emu::ptx
