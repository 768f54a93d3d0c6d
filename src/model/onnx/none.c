/* A build without ONNX's messages. */
#include "model/draft.h"
#include "model/onnx_weights.h"

static int refuse(const char *name, struct orr_error *err)
{
	return orr_fail(
		err, ORR_E_UNSUPPORTED,
		"%s: this build reads no ONNX: install libonnx-dev, protobuf-c-compiler and "
		"libprotobuf-c-dev, and build it again",
		name);
}

int orr_onnx_read(struct orr_draft *draft, const void *bytes, size_t n, struct orr_error *err)
{
	(void)bytes, (void)n;
	return refuse(draft->name, err);
}

int orr_onnx_weights_open(struct orr_onnx_weights **out, const char *path, struct orr_error *err)
{
	(void)out;
	return refuse(path, err);
}

/* Of none that is open. */
void orr_onnx_weights_close(struct orr_onnx_weights *w)
{
	(void)w;
}

int orr_onnx_weights_count(const struct orr_onnx_weights *w)
{
	(void)w;
	return 0;
}

const char *orr_onnx_weights_entry(const struct orr_onnx_weights *w, int i, int *n_dims,
				   const int64_t **dims)
{
	(void)w, (void)i, (void)n_dims, (void)dims;
	return NULL;
}

int orr_onnx_weights_read(const struct orr_onnx_weights *w, int i,
			  const struct orr_parameter_tensor *part, float *to, struct orr_error *err)
{
	(void)w, (void)i, (void)part, (void)to;
	return refuse("weights", err);
}
