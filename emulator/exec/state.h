// State that an instruction family keeps with a warp, a CTA or a cluster, without the core knowing it:
//
//   struct CopyGroups : State { ... };
//   CopyGroups &groups = warp.state<CopyGroups>();   // made on first use, gone with the warp
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace fa::emu {

struct Cta;

struct State {
  virtual ~State() = default;
  /// Called when the CTA ends: reports unfinished operations.
  virtual void at_exit(Cta &) {}
};

/// Numbers handed out to types of states, in the order of first use.
size_t next_state_number();

class States {
 public:
  template <class T>
  T &get() {
    static const size_t number = next_state_number();
    if (number >= states_.size()) states_.resize(number + 1);
    if (!states_[number]) states_[number] = std::make_unique<T>();
    return static_cast<T &>(*states_[number]);
  }
  void at_exit(Cta &cta) {
    for (auto &state : states_)
      if (state) state->at_exit(cta);
  }
  void clear() { states_.clear(); }

 private:
  std::vector<std::unique_ptr<State>> states_;
};

}  // namespace fa::emu
