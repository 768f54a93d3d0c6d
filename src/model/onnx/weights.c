/* Weights: which parameter of which operator a tensor of the file becomes, and its numbers, which
 * lie in the file or in one beside it. */
#include "rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/element.h"
#include "base/read_at.h"
#include "model/onnx_weights.h"
#include "model/text.h"
#include "orrery/input.h"

struct orr_onnx_weights {
	char *path;
	Onnx__ModelProto *model;
	struct orr_onnx_source *sources; /* owned, with their names */
	int n_sources;
};

/* ---- which they are ---- */

static int read_names(struct orr_onnx_weights *w, const char *bytes, size_t n,
		      struct orr_error *err)
{
	struct orr_draft draft = {0};
	int code;

	if ((code = orr_onnx_unpack(&w->model, w->path, bytes, n, err)) ||
	    (code = orr_draft_init(&draft, w->path, err)))
		return code;
	code = orr_onnx_read_model(&draft, w->model, &w->sources, &w->n_sources, err);
	for (int i = 0; i < w->n_sources && !code; i++)
		if (asprintf(&w->sources[i].name, "%s.%s",
			     draft.operators[w->sources[i].is].is.name,
			     w->sources[i].parameter) < 0) {
			w->sources[i].name = NULL;
			code = orr_fail(err, ORR_E_NOMEM, "%s: no memory for its names", w->path);
		}
	orr_draft_fini(&draft);
	return orr_text_fail(code, err);
}

int orr_onnx_weights_open(struct orr_onnx_weights **out, const char *path, struct orr_error *err)
{
	struct orr_onnx_weights *w = calloc(1, sizeof(*w));
	struct orr_error unheard;
	char *bytes = NULL;
	size_t n;
	int code;

	err = err ? err : &unheard;
	if (!w || !(w->path = strdup(path)))
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
	else if (!(code = orr_input_read(&bytes, &n, path, "a model in ONNX", err)) &&
		 !(code = read_names(w, bytes, n, err))) {
		*out = w;
		w = NULL;
	}
	free(bytes);
	orr_onnx_weights_close(w);
	return code;
}

void orr_onnx_weights_close(struct orr_onnx_weights *w)
{
	if (!w)
		return;
	for (int i = 0; i < w->n_sources; i++)
		free(w->sources[i].name);
	free(w->sources);
	orr_onnx_free(w->model);
	free(w->path);
	free(w);
}

int orr_onnx_weights_count(const struct orr_onnx_weights *w)
{
	return w->n_sources;
}

const char *orr_onnx_weights_entry(const struct orr_onnx_weights *w, int i, int *n_dims,
				   const int64_t **dims)
{
	*n_dims = w->sources[i].n_dims;
	*dims = w->sources[i].dims;
	return w->sources[i].name;
}

/* ---- data beside the model ---- */

static int fail(const struct orr_onnx_weights *w, const Onnx__TensorProto *t, const char *what,
		struct orr_error *err)
{
	(void)orr_fail(err, ORR_E_INPUT, "%.120s: weights %.60s: %s", w->path, t->name, what);
	return orr_text_fail(ORR_E_INPUT, err);
}

/* A number of bytes; false: it is none. */
static bool find_bytes(const Onnx__TensorProto *t, const char *key, int64_t *bytes)
{
	const char *text = orr_onnx_external(t, key);
	char *end;

	if (!text)
		return true;
	errno = 0;
	*bytes = strtoll(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno;
}

/* In the folder of the model or below. */
static int open_beside(int *fd, int64_t *n_bytes, const struct orr_onnx_weights *w,
		       const Onnx__TensorProto *t, const char *location, struct orr_error *err)
{
	char *folder = NULL, *path = NULL, *real = NULL;
	int code;

	if (!orr_onnx_beside(&folder, &path, w->path, location))
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", w->path);
	else if (!orr_input_within(&real, folder, path))
		code = orr_input_open(fd, n_bytes, real, "other weights ([init])", err);
	else
		code = orr_fail(err, ORR_E_INPUT,
				"%.100s: weights %.50s lie in %.60s beside it: %s: put that file "
				"there, or name other weights ([init])",
				w->path, t->name, location,
				errno == EXDEV ? "not in the folder of the model"
					       : strerror(errno));
	free(folder);
	free(path);
	free(real);
	return orr_text_fail(code, err);
}

/* *bytes: the caller's to free. */
static int read_beside(void **bytes, int64_t n, const struct orr_onnx_weights *w,
		       const Onnx__TensorProto *t, struct orr_error *err)
{
	const char *location = orr_onnx_external(t, "location");
	int64_t at = 0, length = n, n_bytes;
	int fd, code;

	if (!location)
		return fail(w, t, "lie in a file without a name: export the model again", err);
	if (!find_bytes(t, "offset", &at) || !find_bytes(t, "length", &length) || length != n)
		return fail(w, t,
			    "lie in a file beside it, at no place of their size: export the "
			    "model again",
			    err);
	if ((code = open_beside(&fd, &n_bytes, w, t, location, err)))
		return code;
	if (at > n_bytes || n > n_bytes - at)
		code = fail(w, t,
			    "lie beyond the end of the file beside it: it is cut off, copy "
			    "it again",
			    err);
	else if (!(*bytes = malloc((size_t)n + 1)))
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", w->path);
	else if (orr_read_at(fd, *bytes, (size_t)n, at))
		code = fail(w, t, "cannot be read from the file beside it", err);
	(void)close(fd);
	return code;
}

/* ---- numbers ---- */

/* The rows of the last dimension one after the other, of those before it as they are told. */
static int to_floats(const struct orr_onnx_source *s, enum orr_element element, const char *from,
		     int64_t step, float *to)
{
	int64_t width = s->dims[s->n_dims - 1], rows = 1;
	int64_t *columns = malloc((size_t)width * sizeof(*columns) + 1);

	for (int64_t i = 0; i < width && columns; i++)
		columns[i] = i * s->strides[s->n_dims - 1] * (step / orr_element_bytes(element));
	for (int k = 0; k < s->n_dims - 1; k++)
		rows *= s->dims[k];
	for (int64_t r = 0; r < rows && columns; r++) {
		int64_t at = s->at, rest = r;

		for (int k = s->n_dims - 2; k >= 0; k--) {
			at += rest % s->dims[k] * s->strides[k];
			rest /= s->dims[k];
		}
		orr_element_gather(element, from + at * step, NULL, columns, width, to + r * width);
	}
	free(columns);
	return columns ? 0 : -1;
}

/* The place of its last number; what a damaged shape says may be beyond those that there are. */
static int64_t last_place(const struct orr_onnx_source *s)
{
	int64_t at = s->at;

	for (int k = 0; k < s->n_dims; k++)
		at += (s->dims[k] - 1) * s->strides[k];
	return at;
}

/* Its dimensions and its first number become those of the part. */
static struct orr_onnx_source take_part(const struct orr_onnx_source *whole,
					const struct orr_portion *part, const int64_t *dims)
{
	struct orr_onnx_source s = *whole;

	if (part->of) {
		s.at += part->first * s.strides[part->axis];
		s.dims[part->axis] = dims[part->axis];
	}
	return s;
}

int orr_onnx_weights_read(const struct orr_onnx_weights *w, int i,
			  const struct orr_parameter_tensor *part, float *to, struct orr_error *err)
{
	const struct orr_onnx_source own = take_part(&w->sources[i], &part->portion, part->dims),
				     *s = &w->sources[i];
	const Onnx__TensorProto *t = s->proto;
	enum orr_element element;
	const void *numbers;
	void *beside = NULL;
	int64_t all = 1, step;
	struct orr_error unheard;
	int code = 0;

	err = err ? err : &unheard;
	for (size_t k = 0; k < t->n_dims; k++) /* which fits: its shape was looked at */
		all *= t->dims[k];
	if (last_place(s) >= all)
		return fail(w, t, "are fewer than they must be: a damaged model, export it again",
			    err);
	if (!orr_onnx_element(t, &element))
		return fail(w, t, "are no floats: export the model as float32", err);
	step = orr_element_bytes(element);
	if (t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) {
		if ((code = read_beside(&beside, all * step, w, t, err)))
			goto out;
		numbers = beside;
	} else if (!(numbers = orr_onnx_numbers(t, element, all, &step))) {
		code = fail(w, t, "are not all there: a damaged model, export it again", err);
		goto out;
	}
	if (to_floats(&own, element, numbers, step, to))
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", w->path);
out:
	free(beside);
	return code;
}
