/* Memory of an emulated device is that of the host. */
#include <check.h>

#include "staged.h"
#include "../codelets/cuda/stream.h"

struct orr_device staged_device(enum orr_precision precision)
{
	struct orr_device device;
	char why[200];

	ck_assert_msg(!orr_cuda_stream_init(&device, precision, NULL, why, sizeof(why)), "%s", why);
	return device;
}

void staged_device_fini(struct orr_device *device)
{
	ck_assert_msg(!device->failure, "%s", device->failure);
	orr_cuda_stream_fini(device);
}
