#include "interruption.h"

#include <signal.h>

#include <array>
#include <csignal>
#include <cstdlib>

#include "error.h"

namespace fa::tool {
namespace {

constexpr std::array numbers = {SIGINT, SIGTERM, SIGHUP};

// What the handler touches.
volatile std::sig_atomic_t noted = 0;
std::array<struct sigaction, numbers.size()> before;

void restore() {
  for (size_t i = 0; i < numbers.size(); ++i) sigaction(numbers[i], &before[i], nullptr);
}

extern "C" void note(int number) {
  noted = number;
  restore();
}

}  // namespace

Interruption::Interruption() {
  noted = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    sigaction(numbers[i], nullptr, &before[i]);
    if (before[i].sa_handler == SIG_IGN) continue;  // nohup
    struct sigaction action = {};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    sigaction(numbers[i], &action, nullptr);
  }
}

Interruption::~Interruption() {
  restore();
}

bool Interruption::asked() const {
  return noted != 0;
}

void Interruption::end() {
  restore();
  raise(noted);
  std::exit(exit_failure);  // where the signal is blocked
}

}  // namespace fa::tool
