#include "hardware.h"

#include <stdio.h>
#include <unistd.h>

int hardware_find(const struct orr_run_options *o, int *n_devices, struct orr_error *err)
{
	char why[160] = "";

	*n_devices = 0;
	if (o->hardware == ORR_HARDWARE_CPU && o->streams > 1)
		return orr_fail(
			err, ORR_E_INPUT,
			"--streams %d: a CPU core has none; take --device cuda, or --workers",
			o->streams);
	if (o->hardware == ORR_HARDWARE_CPU)
		return 0;
	*n_devices = orr_run_devices(why, sizeof(why));
	if (o->hardware == ORR_HARDWARE_CUDA && *n_devices <= 0)
		return orr_fail(err, ORR_E_INPUT, "--device cuda: no device: %s; take --device cpu",
				why);
	if (*n_devices < 0)
		*n_devices = 0;
	return 0;
}

int hardware_workers(const struct orr_run_options *o, const char **why)
{
	int n = o->hardware == ORR_HARDWARE_CPU ? 0 : orr_run_devices(NULL, 0);

	*why = n > 0 ? o->streams > 1 ? "one a stream of a device" : "one a device" : "one a core";
	return n > 0 ? n * o->streams : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

void hardware_tell(const struct orr_run_options *o)
{
	char why[160] = "";
	struct orr_core core;

	if (o->hardware == ORR_HARDWARE_AUTO && orr_run_devices(why, sizeof(why)) == 0)
		fprintf(stderr, "found no CUDA device: %s; CPU cores compute\n", why);
	if (o->hardware != ORR_HARDWARE_CPU && orr_run_devices(NULL, 0) > 0)
		return;
	if (!orr_run_core(&core))
		return;
	if (core.slow)
		fprintf(stderr,
			"products by %s for %s alone: this processor has no AVX2, or "
			"ONEDNN_MAX_CPU_ISA keeps it from being used; steps take several times as "
			"long\n",
			core.library, core.products);
	if (o->precision == ORR_PRECISION_BF16 && !core.bf16)
		fprintf(stderr,
			"bf16: this processor (%s) does not multiply it; rounded floats are "
			"multiplied, which takes longer than fp32\n",
			core.products);
}
