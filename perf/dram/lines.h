// Calls as lines of text, for programs that ask for a call's traffic: perf/kernel-report.
#pragma once

#include <string>

#include "perf/dram/calls.h"

namespace fa::dram {

/// "gpu=L4 batch=2 queries=4096 keys=4096 heads=32 heads_kv=8 dim=128 causal=1 page=16 softcap=50", words in any order;
/// lengths=77,512 in place of batch, queries and keys. A name's blanks are written as '_'. Throws
/// std::invalid_argument, which names the error.
Call call_of(const std::string &line);

}  // namespace fa::dram
