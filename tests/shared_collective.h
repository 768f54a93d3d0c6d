#ifndef ORR_TESTS_SHARED_COLLECTIVE_H
#define ORR_TESTS_SHARED_COLLECTIVE_H

/* Called by every member before a sum, in the worker that it keeps; NULL: nothing is. */
extern void (*shared_collective_begins)(void);
#endif
