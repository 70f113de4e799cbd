// Module and entry to Program: which functions are reached, where variables are, decoding, register allocation.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "exec/allocate.h"
#include "exec/decoder.h"
#include "exec/program.h"

namespace fa::emu {

struct BuildOptions {
  bool observed = false;
  uint32_t stack_bytes = 8192;  // a thread, for recursion and calls through pointers
};

struct Built {
  std::shared_ptr<const Program> program;  // null exactly when there is an error
  std::optional<ptx::Error> error;
};

/// addresses: of the module's global and constant variables, by Module::variables; 0 for others.
Built build(std::shared_ptr<const ptx::Module> module, ptx::Index entry, const std::vector<uint64_t> &addresses,
            const BuildOptions &options);

/// Thrown while building, with the line of the PTX text.
struct BuildFailure {
  uint32_t line;
  std::string message;
};

/// The state of one build, which decoders reach through Decoder::builder().
class Builder {
 public:
  Builder(std::shared_ptr<const ptx::Module> module, const std::vector<uint64_t> &addresses,
          const BuildOptions &options);
  std::shared_ptr<const Program> build(ptx::Index entry);

  Program &program() { return *program_; }
  const ptx::Module &module() const { return *module_; }
  bool observed() const { return options_.observed; }

  Slot constant(uint64_t value, uint32_t bytes);
  Slot warp_row(ptx::Index special, uint32_t offset, bool wide);
  /// Where a variable is: an address of memory; an offset from shared_begin; in local memory; in the parameters.
  uint64_t place(ptx::Index variable) const { return places_[variable]; }
  bool is_entry_parameter(ptx::Index variable) const;
  void use(ptx::Index reg, bool write, bool conditional = false) { uses_.push_back({reg, write, conditional}); }
  /// The instruction being decoded writes the register at some later time, up to the next landing.
  void use_late(ptx::Index reg, bool accumulates) {
    late_.push_back({static_cast<uint32_t>(first_use_.size()) - 1, reg, accumulates});
  }
  /// After the instruction being decoded no late write is outstanding.
  void landing() { landings_.push_back(static_cast<uint32_t>(first_use_.size()) - 1); }
  /// A register that nobody reads, for results that the program throws away.
  ptx::Index scratch_register(ptx::Type type);
  ptx::Type register_type(ptx::Index reg) const { return registers_[reg]; }
  /// Its number in Program::functions; UINT32_MAX where it has no body.
  uint32_t function_number(ptx::Index function) const;
  uint32_t first_pc() const { return static_cast<uint32_t>(first_); }

 private:
  void reach(ptx::Index entry);
  void place_variables();
  void place_shared();
  void place_locals();
  uint32_t deepest_locals(uint32_t function, std::vector<bool> &active);
  void decode_function(uint32_t number);
  void decode(const ptx::Function &function, uint32_t number);
  void finish_function(uint32_t number, size_t first_list);
  void wait_in_late_copies(const std::vector<uint32_t> &copies);
  void count_straight_lines();

  std::shared_ptr<const ptx::Module> module_;
  BuildOptions options_;
  std::shared_ptr<Program> program_;
  std::vector<uint64_t> places_;
  std::vector<std::vector<uint32_t>> callees_;  // by Program::functions
  std::unordered_map<uint64_t, Slot> constants_[4];
  std::unordered_map<uint64_t, Slot> warp_rows_;
  // The function being decoded.
  size_t first_ = 0;
  std::vector<ptx::Type> registers_;
  std::vector<RegisterUse> uses_;
  std::vector<uint32_t> first_use_;
  std::vector<LateWrite> late_;
  std::vector<uint32_t> landings_;
};

}  // namespace fa::emu
