// The families of families.inc.
#include "forward/combine/tiles.h"
#include "forward/simt/tiles.h"
#include "probe/tiles.h"
