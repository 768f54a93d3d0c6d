#ifndef ORR_OPERATORS_POOL_H
#define ORR_OPERATORS_POOL_H
/* The attributes of pools, and what they say. */
#include "image.h"

/* Of a kernel: a float, which max_pool keeps, holds every place in its window. */
#define ORR_POOL_MOST 4096

enum { ORR_POOL_KERNEL, ORR_POOL_STRIDE, ORR_POOL_PADDING, ORR_POOL_HEIGHT };
extern const struct orr_attribute orr_pool_attributes[];

struct orr_window orr_pool_window(const struct orr_instance *is);
/* For infer(): the output's shape, and operations a pixel that the window sees. */
bool orr_pool_infer(struct orr_instance *is, const char *const *inputs, char *text, size_t size);
#endif
