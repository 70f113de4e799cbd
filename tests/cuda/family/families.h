// The families of families.inc.
#include "combine/tiles.h"
#include "probe/tiles.h"
#include "simt/tiles.h"
