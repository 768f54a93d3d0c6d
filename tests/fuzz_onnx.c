/* Any bytes as a model in ONNX: read or refused in one line, and what is read can be cut, written
 * and read back; and its weights are numbers, or refused. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codelets/operator.h"
#include "model/draft.h"
#include "model/onnx_weights.h"

#define MOST_FLOATS 100000 /* of weights that are read */

/* From a file that has no name, and none beside it. */
static void read_weights(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz.onnx", 0), n_dims;
	struct orr_onnx_weights *w = NULL;
	struct orr_error err = {""};
	const int64_t *dims;
	const struct orr_parameter_tensor all = {.n_dims = 0};
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	if (orr_onnx_weights_open(&w, path, &err))
		fuzz_refusal(&err);
	for (int i = 0; w && i < orr_onnx_weights_count(w); i++) {
		int64_t floats = 1;
		float *to;

		(void)orr_onnx_weights_entry(w, i, &n_dims, &dims);
		for (int k = 0; k < n_dims; k++)
			floats *= dims[k];
		if (floats > MOST_FLOATS || !(to = malloc((size_t)floats * sizeof(*to) + 1)))
			continue;
		if (orr_onnx_weights_read(w, i, &all, to, &err))
			fuzz_refusal(&err);
		free(to);
	}
	orr_onnx_weights_close(w);
	(void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct orr_draft draft = {0};
	struct orr_graph *g = NULL;
	struct orr_error err = {""};
	int code;

	if (!(code = orr_draft_init(&draft, "fuzz.onnx", &err)) &&
	    !(code = orr_onnx_read(&draft, data, size, &err)))
		code = orr_draft_finish(&g, &draft, &err);
	if (code)
		fuzz_refusal(&err);
	else
		fuzz_model(g);
	if (!code)
		read_weights(data, size);
	orr_draft_fini(&draft);
	orr_graph_destroy(g);
	return 0;
}
