// The other file that includes the definitions.
#include "Common.h"

void CountStart(void) {
  ++Counts.Started;
  MoreCounts[3] = Counts.Started;
}
