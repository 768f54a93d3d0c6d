#ifndef ORR_SEARCHING_H
#define ORR_SEARCHING_H
/* How a search for an order goes, on standard error: the best so far and the bound. One line that
 * changes on a terminal, a line a second elsewhere; nothing of a search that is over sooner. */
#include <stdbool.h>

/* From here on; units: durations are units. */
void searching_show(bool units);
/* The last line has been written. */
void searching_end(void);
#endif
