/* The names of precisions and optimizers. */
#include "orrery/orrery.h"

#include <stdio.h>
#include <string.h>

#include "nearest.h"

static const char *const optimizers[ORR_N_OPTIMIZERS] = {[ORR_OPTIMIZER_ADAMW] = "adamw",
							 [ORR_OPTIMIZER_ADAM] = "adam",
							 [ORR_OPTIMIZER_MOMENTUM] = "momentum",
							 [ORR_OPTIMIZER_SGD] = "sgd",
							 [ORR_OPTIMIZER_NONE] = "none"};
static const char *const precisions[ORR_N_PRECISIONS] = {[ORR_PRECISION_FP32] = "fp32",
							 [ORR_PRECISION_TF32] = "tf32",
							 [ORR_PRECISION_BF16] = "bf16"};

const char *orr_optimizer_name(enum orr_optimizer optimizer)
{
	return optimizers[optimizer];
}

const char *orr_precision_name(enum orr_precision precision)
{
	return precisions[precision];
}

/* Which of the names; below 0: none. */
static int find(const char *const *names, int n, const char *text, const char *what,
		struct orr_error *err)
{
	struct orr_nearest near = orr_nearest_to(text);
	char list[80] = "", hint[ORR_HINT];
	size_t length = 0;

	for (int i = 0; i < n; i++) {
		if (!strcmp(text, names[i]))
			return i;
		orr_nearest_try(&near, names[i], NULL);
	}
	for (int i = 0; i < n && length < sizeof(list); i++)
		length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%s",
					   i == 0      ? ""
					   : i + 1 < n ? ", "
						       : " and ",
					   names[i]);
	return orr_fail(err, ORR_E_INPUT, "%s: no '%.40s'%s: there are %s", what, text,
			orr_nearest_hint(hint, &near), list);
}

int orr_optimizer_parse(enum orr_optimizer *optimizer, const char *text, const char *what,
			struct orr_error *err)
{
	int found = find(optimizers, ORR_N_OPTIMIZERS, text, what, err);

	if (found < 0)
		return found;
	*optimizer = (enum orr_optimizer)found;
	return 0;
}

int orr_precision_parse(enum orr_precision *precision, const char *text, const char *what,
			struct orr_error *err)
{
	int found = find(precisions, ORR_N_PRECISIONS, text, what, err);

	if (found < 0)
		return found;
	*precision = (enum orr_precision)found;
	return 0;
}
