#include "../PhiloxCudaState.h"
