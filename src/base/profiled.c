#include "orrery/orrery.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {[ORR_HARDWARE_CPU] = "cpu", [ORR_HARDWARE_CUDA] = "cuda"};

struct orr_profiled orr_profiled_of(enum orr_hardware hardware, enum orr_precision precision)
{
	if (hardware == ORR_HARDWARE_CPU && precision == ORR_PRECISION_TF32)
		precision = ORR_PRECISION_FP32;
	return (struct orr_profiled){hardware, precision};
}

int orr_profiled_parse(struct orr_profiled *profiled, const char *text, const char *what,
		       struct orr_error *err)
{
	const char *comma = strchr(text, ',');
	enum orr_precision precision;
	int code;

	for (int i = ORR_HARDWARE_CPU; comma && i <= ORR_HARDWARE_CUDA; i++) {
		if (strlen(names[i]) != (size_t)(comma - text) ||
		    strncmp(text, names[i], strlen(names[i])) != 0)
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

const char *orr_profiled_print(char *text, size_t size, const struct orr_profiled *profiled)
{
	(void)snprintf(text, size, "%s, %s", names[profiled->hardware],
		       orr_precision_name(profiled->precision));
	return text;
}
