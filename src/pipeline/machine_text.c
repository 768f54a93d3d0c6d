#include "machine_text.h"

#include "base/json.h"
#include "orrery/machine.h"
#include "base/quantity.h"
#include "base/utf8.h"

const char *orr_worker_text(const struct orr_machine *m, int w)
{
	const struct orr_cluster *c = m->cluster;

	return c ? orr_text(" %.*s x%g", orr_utf8_fit(c->workers[w].name, 20), c->workers[w].name,
			    c->workers[w].speed)
		 : "";
}

static bool are_alike(const struct orr_cluster *c, int v, int w)
{
	const struct orr_cluster_worker *x = &c->workers[v], *y = &c->workers[w];

	return x->group == y->group && x->speed == y->speed && x->memory_bytes == y->memory_bytes;
}

/* "w0-1 new x2 80 GB": runs of workers that are alike. */
static void write_run(FILE *file, const struct orr_cluster *c, int first, int last)
{
	const struct orr_cluster_worker *worker = &c->workers[first];
	const char *node = c->groups[worker->group].name;

	fprintf(file, "%s w%d%s%s%s x%g", first ? "," : ":", first,
		last > first ? orr_text("-%d", last) : "", *node ? " " : "", node, worker->speed);
	if (worker->memory_bytes)
		fprintf(file, " %s", orr_size_text(worker->memory_bytes));
}

static const char *links_name(const struct orr_cluster *c)
{
	bool ports = false, uplinks = false;

	for (int g = 0; g < c->n_groups; g++) {
		ports = ports || c->groups[g].ports;
		uplinks = uplinks || c->groups[g].lanes;
	}
	if (uplinks)
		return ports            ? "ports and uplinks"
		       : c->half_duplex ? "half-duplex links and uplinks"
					: "links and uplinks";
	return ports ? "ports" : c->half_duplex ? "half-duplex links" : "links";
}

void orr_machine_write(FILE *file, const struct orr_machine *m, const char *heading)
{
	const struct orr_cluster *c = m->cluster;

	if (!c)
		return;
	fprintf(file, "%s%s, %s%s", heading, c->name, c->shared ? "shared " : "", links_name(c));
	for (int w = 0, first = 0; w < m->n_workers; w++)
		if (w + 1 == m->n_workers || !are_alike(c, first, w + 1)) {
			write_run(file, c, first, w);
			first = w + 1;
		}
	fputc('\n', file);
}

void orr_worker_json(json_t **worker, const struct orr_machine *m, int w)
{
	const struct orr_cluster_worker *is;

	if (!m->cluster)
		return;
	is = &m->cluster->workers[w];
	orr_json_set(worker, "name", json_string(is->name));
	orr_json_set(worker, "node", json_string(m->cluster->groups[is->group].name));
	orr_json_set(worker, "speed", json_real(is->speed));
	orr_json_set(worker, "memory",
		     is->memory_bytes ? json_integer(is->memory_bytes) : json_null());
}
