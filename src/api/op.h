// The contents of an fa_op.
#pragma once

#include "dispatch/prepare.h"

struct fa_op {
  fa::Attention attention;
  fa::dispatch::Prepared prepared;
};
