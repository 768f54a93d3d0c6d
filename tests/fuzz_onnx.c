/* Any bytes as a model in ONNX: read or refused in one line, and what is read can be cut, written
 * and read back. */
#include "fuzz.h"

#include "model/draft.h"

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
	orr_draft_fini(&draft);
	orr_graph_destroy(g);
	return 0;
}
