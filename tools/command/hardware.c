#include "hardware.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "base/quantity.h"

int hardware_find(const struct orr_run_options *o, int *n_devices, struct orr_error *err)
{
	char why[160] = "";

	*n_devices = 0;
	if (o->hardware == ORR_HARDWARE_CPU && o->streams > 1)
		return orr_fail(
			err, ORR_E_INPUT,
			"--streams %d: a CPU core has none; take --device cuda, or --workers",
			o->streams);
	if (o->hardware == ORR_HARDWARE_CPU)
		return 0;
	*n_devices = orr_run_devices(why, sizeof(why));
	if (o->hardware == ORR_HARDWARE_CUDA && *n_devices <= 0)
		return orr_fail(err, ORR_E_INPUT, "--device cuda: no device: %s; take --device cpu",
				why);
	if (*n_devices < 0)
		*n_devices = 0;
	return 0;
}

int hardware_workers(const struct orr_run_options *o, const char **why)
{
	int n = o->hardware == ORR_HARDWARE_CPU ? 0 : orr_run_devices(NULL, 0);

	*why = n > 0 ? o->streams > 1 ? "one a stream of a device" : "one a device" : "one a core";
	return n > 0 ? n * o->streams : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

void hardware_tell(const struct orr_run_options *o)
{
	char why[160] = "";
	struct orr_core core;

	if (o->hardware == ORR_HARDWARE_AUTO && orr_run_devices(why, sizeof(why)) == 0)
		fprintf(stderr, "found no CUDA device: %s; CPU cores compute\n", why);
	if (o->hardware != ORR_HARDWARE_CPU && orr_run_devices(NULL, 0) > 0)
		return;
	if (!orr_run_core(&core))
		return;
	if (core.slow)
		fprintf(stderr,
			"products by %s for %s alone: this processor has no AVX2, or "
			"ONEDNN_MAX_CPU_ISA keeps it from being used; steps take several times as "
			"long\n",
			core.library, core.products);
	if (o->precision == ORR_PRECISION_BF16 && !core.bf16)
		fprintf(stderr,
			"bf16: this processor (%s) does not multiply it; rounded floats are "
			"multiplied, which takes longer than fp32\n",
			core.products);
}

int hardware_init(struct hardware *h, struct orr_run *run, int n_workers, struct orr_error *err)
{
	h->n_workers = n_workers;
	h->places = calloc((size_t)n_workers, sizeof(*h->places));
	if (!h->places)
		return orr_fail(err, ORR_E_NOMEM, "no memory for the report");
	h->n_moved = orr_run_moved(run, h->moved, HARDWARE_MOVED);
	return orr_run_mapping(run, h->places, err);
}

void hardware_fini(struct hardware *h)
{
	free(h->places);
}

static bool is_same(const struct orr_mapping *a, const struct orr_mapping *b)
{
	return a->rank == b->rank && a->id == b->id;
}

/* One that serves several workers is named once, with all of them. */
static bool is_first(const struct hardware *h, int w)
{
	for (int i = 0; i < w; i++)
		if (is_same(&h->places[i], &h->places[w]))
			return false;
	return true;
}

void hardware_print(const struct hardware *h, bool several_ranks)
{
	for (int w = 0; w < h->n_workers; w++) {
		const struct orr_mapping *p = &h->places[w];

		if (!is_first(h, w))
			continue;
		printf("%s", p->name);
		if (several_ranks)
			printf(" of rank %d", p->rank);
		if (p->bus[0])
			printf(", PCI %s", p->bus);
		if (p->core >= 0)
			printf(", %score %d", p->device >= 0 ? "driven by " : "", p->core);
		if (p->numa >= 0)
			printf(", NUMA node %d", p->numa);
		printf(": worker %d", w);
		for (int i = w + 1; i < h->n_workers; i++)
			if (is_same(&h->places[i], p))
				printf(", %d", i);
		printf("\n");
	}
	for (int i = 0; i < h->n_moved; i++)
		printf("%s%s from %s to %s%s",
		       i ? ", " : "Moved: ", orr_size_text(h->moved[i].bytes), h->moved[i].from,
		       h->moved[i].to, i + 1 == h->n_moved ? "\n" : "");
}

static json_t *place_json(const struct orr_mapping *p)
{
	json_t *json = json_pack("{s:i,s:i,s:s}", "worker", p->w, "rank", p->rank, "on", p->name);

	if (p->core >= 0)
		orr_json_set(&json, "core", json_integer(p->core));
	if (p->numa >= 0)
		orr_json_set(&json, "numa", json_integer(p->numa));
	if (p->device >= 0)
		orr_json_set(&json, "device", json_integer(p->device));
	if (p->bus[0])
		orr_json_set(&json, "pci", json_string(p->bus));
	return json;
}

json_t *hardware_mapping_json(const struct hardware *h)
{
	json_t *mapping = json_array();

	for (int w = 0; w < h->n_workers; w++)
		orr_json_append(&mapping, place_json(&h->places[w]));
	return mapping;
}

json_t *hardware_moved_json(const struct hardware *h)
{
	json_t *moved = json_array();

	for (const struct orr_moved *m = h->moved; m < h->moved + h->n_moved; m++)
		orr_json_append(&moved, json_pack("{s:s,s:s,s:I,s:I}", "from", m->from, "to", m->to,
						  "bytes", (json_int_t)m->bytes, "transfers",
						  (json_int_t)m->n));
	return moved;
}
