#include "alone.h"

#include "codelets/cuda/device.h"
#include "codelets/cuda/stream.h"

static int take_device(struct orr_alone *alone, enum orr_precision precision, struct orr_error *err)
{
	char why[200];

	if (orr_cuda_take(orr_cuda_device(0), &alone->stream, why, sizeof(why)) ||
	    orr_cuda_stream_init(&alone->device, precision, alone->stream, why, sizeof(why)))
		return orr_fail(err, ORR_E_RUNTIME, "the first CUDA device does not start: %s",
				why);
	return 0;
}

int orr_alone_init(struct orr_alone *alone, enum orr_hardware hardware,
		   enum orr_precision precision, struct orr_error *err)
{
	char why[160] = "";
	int n = hardware == ORR_HARDWARE_CPU ? 0 : orr_run_devices(why, sizeof(why)), code;

	*alone = (struct orr_alone){.device = orr_device_cpu(precision)};
	if (hardware == ORR_HARDWARE_CUDA && n <= 0)
		return orr_fail(err, ORR_E_INPUT, "no CUDA device: %s", why);
	if (n > 0 && (code = take_device(alone, precision, err))) {
		orr_alone_fini(alone);
		return code;
	}
	return 0;
}

void orr_alone_fini(struct orr_alone *alone)
{
	orr_cuda_stream_fini(&alone->device);
	orr_cuda_give_back(alone->stream);
}
