#include "list.h"

#include <string.h>

#define ORR_POINTER(name) &orr_op_##name,
#define ORR_POINTER_ELEMENTWISE(name, kept, forward, backward) &orr_op_##name,
const struct orr_op *const orr_ops[] = {ORR_OPERATORS(ORR_POINTER)
						ORR_ELEMENTWISE(ORR_POINTER_ELEMENTWISE)};
const int orr_n_ops = (int)(sizeof(orr_ops) / sizeof(orr_ops[0]));

const struct orr_op *orr_op_find(const char *name)
{
	for (int i = 0; i < orr_n_ops; i++)
		if (strcmp(orr_ops[i]->name, name) == 0)
			return orr_ops[i];
	return NULL;
}
