// Functions that do their work by another one: FA_EMU_FAIL knows the call by the name that the program has used.
#pragma once

#include <string_view>
#include <utility>

namespace fa::emu::driver {

class CalledAs {
 public:
  explicit CalledAs(const char *name) : outer_(current_) {
    if (!current_) current_ = this, name_ = name;
  }
  ~CalledAs() { current_ = outer_; }
  CalledAs(const CalledAs &) = delete;
  CalledAs &operator=(const CalledAs &) = delete;

  /// The name of the call in progress, without a version; `name` is of the function that does the work. Empty where the
  /// call has been counted before.
  static std::string_view count(std::string_view name) {
    if (current_) name = std::exchange(current_->counted_, true) ? "" : current_->name_;
    const size_t version = name.rfind("_v");
    return version != name.npos && version + 3 == name.size() ? name.substr(0, version) : name;
  }

 private:
  inline static thread_local CalledAs *current_ = nullptr;
  CalledAs *const outer_;
  const char *name_ = "";
  bool counted_ = false;
};

}  // namespace fa::emu::driver
