#include "history.h"

#include <math.h>

#define MOST_KEPT 8192

static json_t *number_or_null(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

/* Every other step of those without a test loss. */
static void thin_out(struct history *h)
{
	json_t *fewer = json_array(), *entry;
	size_t i;

	h->every *= 2;
	json_array_foreach(
		h->losses, i,
		entry) if (json_object_get(entry, "test_loss") ||
			   json_integer_value(json_object_get(entry, "step")) % h->every == 0)
		json_array_append(fewer, entry);
	json_decref(h->losses);
	h->losses = fewer;
}

/* Takes the reference; without memory a step is missing. */
static void append(struct history *h, json_t *entry)
{
	if (!h->losses)
		h->losses = json_array();
	json_array_append_new(h->losses, entry);
}

void history_add(struct history *h, int64_t step, double loss)
{
	h->every = h->every ? h->every : 1;
	if (!h->wanted || step % h->every)
		return;
	append(h, json_pack("{s:I, s:o}", "step", (json_int_t)step, "loss", number_or_null(loss)));
	if (json_array_size(h->losses) > MOST_KEPT)
		thin_out(h);
}

void history_add_test(struct history *h, int64_t step, double loss)
{
	size_t n = json_array_size(h->losses);
	json_t *last = n ? json_array_get(h->losses, n - 1) : NULL;

	if (!h->wanted)
		return;
	if (!last || json_integer_value(json_object_get(last, "step")) != step) {
		last = json_pack("{s:I, s:n}", "step", (json_int_t)step, "loss");
		append(h, last);
	}
	json_object_set_new(last, "test_loss", number_or_null(loss));
}

void history_fini(struct history *h)
{
	json_decref(h->losses);
	*h = (struct history){0};
}
