// Tables of refusals: a valid call, one change, and the words that the text must hold.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace api_test {

template <class Call>
struct RefusalOf {
  const char *name;
  void (*change)(Call &);
  std::vector<std::string> words;
};

template <class Call>
void PrintTo(const RefusalOf<Call> &refusal, std::ostream *stream) {
  *stream << refusal.name;
}

template <class Call>
std::string name_of(const testing::TestParamInfo<RefusalOf<Call>> &info) {
  return info.param.name;
}

}  // namespace api_test
