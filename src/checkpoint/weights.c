#include "weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/element.h"
#include "base/tensor_header.h"
#include "codelets/operator.h"
#include "orrery/run.h"
#include "orrery/graph.h"
#include "base/input_file.h"
#include "base/quantity.h"

#define NAME 512     /* room for a tensor's name */
#define PIECE 16384  /* numbers that are read at once */
#define MOST_NAMES 3 /* of those that a message lists */

/* Behind the name of a parameter: of itself, and of what an optimizer keeps of it, two or one. */
static const char *const ends[] = {"", ".first_moment", ".second_moment", ".momentum"};

/* ---- the file ---- */

static int read_header(struct orr_tensor_file *w, struct orr_error *err)
{
	int64_t file_bytes = 0;
	char *text = NULL;
	int code = orr_input_open(&w->fd, &file_bytes, w->path, "a file of safetensors", err);

	if (!code && !(code = orr_tensor_file_begin(w, file_bytes, &text, err)))
		code = orr_tensor_header_read(&w->header, w->path, text + 8, (size_t)w->data_at - 8,
					      w->data_bytes, err);
	free(text);
	return code;
}

/* ---- its tensors and the model's ---- */

/* Parameter i of operator k, or of the first that shares it; NULL: it is not there. */
static const struct orr_tensor_entry *find(const struct orr_tensor_file *w,
					   const struct orr_graph *g, int k, const char *parameter)
{
	const struct orr_tensor_entry *entry = NULL;
	int tied = g->operators[k].tied;
	char name[NAME];

	for (int other = 0; other < g->n_operators && !entry; other++) {
		if (other != k && (tied < 0 || g->operators[other].tied != tied))
			continue;
		(void)snprintf(name, sizeof(name), "%s.%s", g->operators[other].name, parameter);
		entry = orr_tensor_header_find(&w->header, name);
	}
	return entry;
}

static void print_shape(char text[80], const int64_t *dims, int n_dims)
{
	size_t n = 0;

	(void)snprintf(text, 80, "a number");
	for (int i = 0; i < n_dims && n < 60; i++)
		n += (size_t)snprintf(text + n, 80 - n, "%s%lld", i ? " x " : "",
				      (long long)dims[i]);
}

static int check_entry(const struct orr_tensor_file *w, const struct orr_tensor_entry *entry,
		       const int64_t *dims, int n_dims, struct orr_error *err)
{
	char there[80], here[80];

	if (entry->element > ORR_ELEMENT_F64)
		return orr_fail(err, ORR_E_INPUT,
				"%s: the numbers of '%.80s' are %s, and weights are F32, F16, BF16 "
				"or F64: write it as one of them",
				w->path, entry->name, orr_element_name(entry->element));
	if (entry->n_dims == n_dims && !memcmp(entry->dims, dims, (size_t)n_dims * sizeof(*dims)))
		return 0;
	print_shape(there, entry->dims, entry->n_dims);
	print_shape(here, dims, n_dims);
	return orr_fail(err, ORR_E_INPUT,
			"%s: '%.80s' is %s there and %s in the model: make them equal, or take it "
			"out of the file and give [init-partly]",
			w->path, entry->name, there, here);
}

/* The first of some names, "a.weight, a.bias and 4 more". */
struct names {
	int n;
	char text[160];
};

static void add_name(struct names *names, const char *name)
{
	size_t n = strlen(names->text);

	if (names->n++ < MOST_NAMES)
		(void)snprintf(names->text + n, sizeof(names->text) - n, "%s%.40s", n ? ", " : "",
			       name);
}

static const char *names_text(const struct names *names)
{
	int more = names->n - MOST_NAMES;

	return more > 0 ? orr_text("%s and %d more", names->text, more) : names->text;
}

static int check_model(const struct orr_tensor_file *w, const struct orr_graph *g,
		       struct names *missing, struct orr_error *err)
{
	const char *parameter;
	const int64_t *dims;
	int n_dims, code = 0;

	for (int k = 0; k < g->n_operators; k++)
		for (int i = 0;
		     (parameter = orr_operator_parameter(&g->operators[k], i, &n_dims, &dims));
		     i++) {
			const struct orr_tensor_entry *entry = find(w, g, k, parameter);
			char name[NAME];

			(void)snprintf(name, sizeof(name), "%s.%s", g->operators[k].name,
				       parameter);
			if (!entry && orr_operator_counts(&g->operators[k], k))
				add_name(missing, name);
			if (entry && (code = check_entry(w, entry, dims, n_dims, err)))
				return code;
		}
	return 0;
}

/* Is it a parameter's name, perhaps with what an optimizer keeps of it behind? */
static bool is_known(const struct orr_graph *g, const char *name)
{
	const char *parameter;
	const int64_t *dims;
	int n_dims;

	for (int k = 0; k < g->n_operators; k++) {
		const struct orr_operator *o = &g->operators[k];
		size_t n = strlen(o->name), m;

		if (strncmp(name, o->name, n) != 0 || name[n] != '.')
			continue;
		for (int i = 0; (parameter = orr_operator_parameter(o, i, &n_dims, &dims)); i++) {
			m = strlen(parameter);
			for (int e = 0; e < 4 && !strncmp(name + n + 1, parameter, m); e++)
				if (!strcmp(name + n + 1 + m, ends[e]))
					return true;
		}
	}
	return false;
}

static int compare(const struct orr_tensor_file *w, const struct orr_graph *g, bool partly,
		   char *text, size_t size, struct orr_error *err)
{
	struct names missing = {0}, left = {0};
	int code = check_model(w, g, &missing, err);

	if (code)
		return code;
	for (int i = 0; i < w->header.n; i++)
		if (!is_known(g, w->header.entries[i].name))
			add_name(&left, w->header.entries[i].name);
	if (size)
		*text = '\0';
	if (partly && missing.n)
		(void)snprintf(text, size,
			       "%s: lacks %d of the model's tensors (%s), which begin as they "
			       "would without it%s",
			       w->path, missing.n, names_text(&missing), left.n ? "; " : "");
	if (partly && left.n)
		(void)snprintf(text + strlen(text), size - strlen(text), "%s%s%d left over (%s)",
			       missing.n ? "" : w->path, missing.n ? "" : ": ", left.n,
			       names_text(&left));
	if (partly || (!missing.n && !left.n))
		return 0;
	if (missing.n)
		return orr_fail(err, ORR_E_INPUT,
				"%.100s: lacks %d of the model's tensors (%s): give [init-partly] "
				"to begin with what is there",
				w->path, missing.n, missing.text);
	return orr_fail(err, ORR_E_INPUT,
			"%.100s: %d left over that the model has not (%s): give [init-partly] to "
			"leave them",
			w->path, left.n, names_text(&left));
}

int orr_weights_open(struct orr_tensor_file *w, const char *path, const struct orr_graph *g,
		     bool partly, char *text, size_t size, struct orr_error *err)
{
	int code;

	*w = (struct orr_tensor_file){.fd = -1, .path = strdup(path)};
	if (!w->path)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
	if ((code = read_header(w, err)) || (code = compare(w, g, partly, text, size, err)))
		orr_tensor_file_close(w);
	return code;
}

static int check_finite(const struct orr_tensor_file *w, const struct orr_tensor_entry *entry,
			const float *numbers, int64_t n, struct orr_error *err)
{
	for (int64_t i = 0; i < n; i++)
		if (!isfinite(numbers[i]))
			return orr_fail(err, ORR_E_INPUT,
					"%s: a number of '%.80s' is not finite as a float32: it is "
					"no model: name another file",
					w->path, entry->name);
	return 0;
}

/* From its float `first` on. */
static int read_floats(const struct orr_tensor_file *w, const struct orr_tensor_entry *entry,
		       int64_t first, int64_t n, float *to, struct orr_error *err)
{
	int64_t bytes = orr_element_bytes(entry->element);
	char *piece = malloc((size_t)(PIECE * bytes));
	int code = 0;

	if (!piece)
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", w->path);
	for (int64_t at = 0; at < n && !code; at += PIECE) {
		int64_t m = n - at < PIECE ? n - at : PIECE;

		if (orr_read_at(w->fd, piece, (size_t)(m * bytes),
				w->data_at + entry->at + (first + at) * bytes)) {
			code = orr_tensor_header_fail(w->path, "it cannot be read to its end", err);
			break;
		}
		orr_element_gather(entry->element, piece, NULL, NULL, m, to + at);
	}
	free(piece);
	return code;
}

int orr_weights_read(const struct orr_tensor_file *w, const struct orr_graph *g, int k, int i,
		     const struct orr_parameter_tensor *part, float *to, struct orr_error *err)
{
	struct orr_pieces pieces = orr_portion_pieces(&part->portion, part->n_dims, part->dims);
	int n_dims, code = 0;
	const int64_t *dims;
	const struct orr_tensor_entry *entry =
		find(w, g, k, orr_operator_parameter(&g->operators[k], i, &n_dims, &dims));

	if (!entry)
		return 0;
	for (int64_t p = 0; p < pieces.n && !code; p++)
		code = read_floats(w, entry, pieces.first + p * pieces.apart, pieces.floats,
				   to + p * pieces.floats, err);
	return code ? code : check_finite(w, entry, to, orr_parameter_floats(part), err);
}

/* ---- writing ---- */

void orr_tensors_drop_names(struct orr_named_tensor *tensors, int n)
{
	for (int i = 0; i < n; i++)
		free((char *)(uintptr_t)tensors[i].name);
}

int orr_tensors_name(struct orr_named_tensor tensors[ORR_MOST_KEPT], const struct orr_graph *whole,
		     int o, int j, enum orr_optimizer optimizer)
{
	const struct orr_operator *operator= & whole->operators[o];
	const struct orr_parameter_tensor *tensor = &operator->instance->parameters[j];
	int n_state = operator->frozen ? 0 : orr_optimizer_floats(optimizer);

	for (int i = 0; i <= n_state; i++) {
		char *name;

		if (asprintf(&name, "%s.%s%s", operator->name, tensor->name,
			     ends[n_state == 1 && i ? 3 : i]) < 0) {
			orr_tensors_drop_names(tensors, i);
			return -1;
		}
		tensors[i] = (struct orr_named_tensor){.name = name, .n_dims = tensor->n_dims};
		memcpy(tensors[i].shape, tensor->dims, sizeof(tensors[i].shape));
	}
	return n_state + 1;
}

int orr_weights_write(FILE *file, const struct orr_graph *g, const float *parameters,
		      struct orr_error *err)
{
	const struct orr_graph *whole = orr_graph_whole(g);
	size_t most = (size_t)whole->n_operators * ORR_MOST_PARAMETER_TENSORS;
	struct orr_named_tensor *tensors = calloc(most + 1, sizeof(*tensors));
	int n = 0, code = tensors ? 0 : -1;

	for (int k = 0; k < whole->n_operators; k++)
		for (int i = 0; i < whole->operators[k].instance->n_parameters && code >= 0; i++) {
			code = orr_tensors_name(&tensors[n], whole, k, i, ORR_OPTIMIZER_NONE);
			if (code < 0)
				continue;
			tensors[n].values = (float *)(uintptr_t)parameters;
			parameters += orr_named_tensor_floats(&tensors[n++]);
		}
	code = code < 0 ? orr_fail(err, ORR_E_NOMEM, "weights: no memory for the names of tensors")
			: orr_safetensors_print(file, tensors, n, "orrery, weights", err);
	orr_tensors_drop_names(tensors, n);
	free(tensors);
	return code;
}
