// Ctrl-C as a request to stop, for work whose first part is worth having.
#pragma once

namespace fa::tool {

/// While one lives, the first SIGINT, SIGTERM or SIGHUP is noted; a second one does what it did before. There is one at
/// a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption &) = delete;
  Interruption &operator=(const Interruption &) = delete;

  bool asked() const;

  /// Ends the program by the signal that came, so that whoever started it sees that.
  [[noreturn]] void end();
};

}  // namespace fa::tool
