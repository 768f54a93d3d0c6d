/* The names of precisions, optimizers and hardware. */
#include "orrery/orrery.h"

#include <string.h>

#include "nearest.h"
#include "quantity.h"

static const char *const optimizers[] = {
	[ORR_OPTIMIZER_ADAMW] = "adamw",       [ORR_OPTIMIZER_ADAM] = "adam",
	[ORR_OPTIMIZER_MOMENTUM] = "momentum", [ORR_OPTIMIZER_SGD] = "sgd",
	[ORR_OPTIMIZER_NONE] = "none",         NULL};
static const char *const precisions[] = {[ORR_PRECISION_FP32] = "fp32",
					 [ORR_PRECISION_TF32] = "tf32",
					 [ORR_PRECISION_BF16] = "bf16",
					 NULL};
static const char *const hardware[] = {[ORR_HARDWARE_CPU] = "cpu", [ORR_HARDWARE_CUDA] = "cuda"};

const char *orr_optimizer_name(enum orr_optimizer optimizer)
{
	return optimizers[optimizer];
}

const char *orr_precision_name(enum orr_precision precision)
{
	return precisions[precision];
}

int orr_optimizer_parse(enum orr_optimizer *optimizer, const char *text, const char *what,
			struct orr_error *err)
{
	return orr_word_find((int *)optimizer, optimizers, text, what, err);
}

int orr_precision_parse(enum orr_precision *precision, const char *text, const char *what,
			struct orr_error *err)
{
	return orr_word_find((int *)precision, precisions, text, what, err);
}

struct orr_profiled orr_profiled_of(enum orr_hardware on, enum orr_precision precision)
{
	if (on == ORR_HARDWARE_CPU && precision == ORR_PRECISION_TF32)
		precision = ORR_PRECISION_FP32;
	return (struct orr_profiled){on, precision};
}

int orr_profiled_parse(struct orr_profiled *profiled, const char *text, const char *what,
		       struct orr_error *err)
{
	const char *comma = strchr(text, ',');
	enum orr_precision precision;
	int code;

	for (int i = ORR_HARDWARE_CPU; comma && i <= ORR_HARDWARE_CUDA; i++) {
		if (strlen(hardware[i]) != (size_t)(comma - text) ||
		    strncmp(text, hardware[i], strlen(hardware[i])) != 0)
			continue;
		if ((code = orr_precision_parse(&precision, comma + 1 + (comma[1] == ' '), what,
						err)))
			return code;
		*profiled = orr_profiled_of((enum orr_hardware)i, precision);
		return 0;
	}
	return orr_fail(err, ORR_E_INPUT,
			"%s: '%.40s' is no device and precision: write \"cuda, bf16\" or "
			"\"cpu, fp32\"",
			what, text);
}

const char *orr_profiled_text(const struct orr_profiled *profiled)
{
	return orr_text("%s, %s", hardware[profiled->hardware],
			orr_precision_name(profiled->precision));
}
