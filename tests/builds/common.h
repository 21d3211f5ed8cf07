// Definitions in a header, as C sources of drivers have them: one variable for all that include it.
#pragma once

typedef struct _COUNTS {
  int Initialized, Started;
} COUNTS;

COUNTS Counts;
int MoreCounts[4];

void CountStart(void);
