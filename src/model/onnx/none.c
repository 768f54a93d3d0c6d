/* A build without ONNX's messages. */
#include "model/draft.h"

int orr_onnx_read(struct orr_draft *draft, const void *bytes, size_t n, struct orr_error *err)
{
	(void)bytes, (void)n;
	return orr_fail(
		err, ORR_E_UNSUPPORTED,
		"%s: this build reads no ONNX: install libonnx-dev, protobuf-c-compiler and "
		"libprotobuf-c-dev, and build it again",
		draft->name);
}
