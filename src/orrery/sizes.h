#ifndef ORR_SIZES_H
#define ORR_SIZES_H
/* For programs that no C compiler has checked against these headers, such as Python's with ctypes:
 * they compare what they have written down with what the library was compiled with. */
#include "declare.h"
#include "schedule.h"

ORR_BEGIN

/* The structs that whoever calls the library fills in or reads; NULL names the end. */
extern const struct orr_size *const orr_sizes;

ORR_END
#endif
