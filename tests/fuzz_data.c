/* Any bytes as a data set: read or refused in one line, and of what is read every number can be
 * gathered. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "orrery/graph.h"

static void gather_all(const struct orr_dataset *data)
{
	for (int i = 0; i == 0 || i < data->n_tensors; i++) {
		const char *name = data->n_tensors ? data->tensors[i].name : NULL;
		struct orr_data_tensor tensor;
		struct orr_error err = {""};
		float value;

		if (!orr_dataset_find(&tensor, data, name))
			fail("there is no tensor", name ? name : "");
		for (int64_t r = 0; r < data->n_rows; r++)
			for (int64_t c = 0; c < tensor.n_columns; c++)
				if (orr_dataset_gather(data, name, &c, 1, &r, 1, &value, &err))
					check_refusal(&err);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("data", MFD_CLOEXEC);
	struct orr_dataset *data = NULL;
	struct orr_error err = {""};
	char path[64];

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		fail("no file", "");
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (orr_dataset_read(&data, path, NULL, 0, &err))
		check_refusal(&err);
	else
		gather_all(data);
	orr_dataset_destroy(data);
	close(fd);
	return 0;
}
