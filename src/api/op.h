// What an fa_op is.
#pragma once

#include "dispatch/prepare.h"

struct fa_op {
  fa::Attention attention;
  fa::dispatch::Prepared prepared;
};
