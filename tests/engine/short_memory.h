// Calls in which one allocation after another fails.
#pragma once

#include <fa.h>
#include <gtest/gtest.h>

#include "engine/allocation.h"

namespace test {

/// Makes each allocation of call() fail, alone and together with all later ones, each time after clear(). check(done)
/// checks the outcome; done: the call has succeeded nevertheless, such as on fewer threads. True when some call failed.
template <class Clear, class Call, class Check>
bool fails_where_memory_is_short(Clear clear, Call call, Check check) {
  bool any = false, failed = true;
  for (int64_t failing = 0; failed && failing < 1000; ++failing) {
    for (const bool all_after : {false, true}) {
      fa_shutdown();  // starting threads allocates, too
      clear();
      watch_allocations(failing, all_after);
      const fa_status status = call();
      failed = stop_watching() > failing;
      any |= status != FA_OK;
      if (status != FA_OK) {
        EXPECT_EQ(status, FA_ERROR_OUT_OF_MEMORY) << fa_last_error();
        EXPECT_TRUE(failed);
        EXPECT_STRNE(fa_last_error(), "");
      }
      check(status == FA_OK);
    }
  }
  EXPECT_FALSE(failed) << "a call with 1000 allocations";
  return any;
}

}  // namespace test
