#include "links.h"

#include <jansson.h>
#include <stdio.h>

#include "output.h"
#include "orrery/quantity.h"
#include "orrery/links.h"
#include "session.h"

/* The simulator has one kind of link: the one that no real one is worse than. */
static struct orr_link worst_of(const struct orr_links *links)
{
	struct orr_link worst = links->links[0];

	for (int i = 1; i < links->n_links; i++) {
		const struct orr_link *l = &links->links[i];

		if (l->latency_ns > worst.latency_ns)
			worst.latency_ns = l->latency_ns;
		if (l->bandwidth_bytes_per_s < worst.bandwidth_bytes_per_s)
			worst.bandwidth_bytes_per_s = l->bandwidth_bytes_per_s;
	}
	return worst;
}

/* As options take it. */
static const char *without_blanks(char *text)
{
	char *to = text;

	for (const char *c = text; *c; c++)
		if (*c != ' ')
			*to++ = *c;
	*to = '\0';
	return text;
}

static void print(const struct orr_links *links)
{
	struct orr_link worst = worst_of(links);
	char latency[32], size[32];

	printf("%-24s %-24s %10s %12s\n", "rank", "rank", "latency", "bandwidth");
	for (int i = 0; i < links->n_links; i++) {
		const struct orr_link *l = &links->links[i];
		char a[ORR_HOST_NAME + 16], b[ORR_HOST_NAME + 16], rate[40];

		snprintf(a, sizeof(a), "%d %s", l->a, links->hosts[l->a]);
		snprintf(b, sizeof(b), "%d %s", l->b, links->hosts[l->b]);
		snprintf(rate, sizeof(rate), "%s/s",
			 orr_size_print(size, sizeof(size), (int64_t)l->bandwidth_bytes_per_s));
		printf("%-24s %-24s %10s %12s\n", a, b,
		       orr_duration_print(latency, sizeof(latency), l->latency_ns, false), rate);
	}
	orr_duration_print(latency, sizeof(latency), worst.latency_ns, false);
	orr_size_print(size, sizeof(size), (int64_t)worst.bandwidth_bytes_per_s);
	printf("\nThe slowest, for simulate: --latency %s --bandwidth %s/s\n",
	       without_blanks(latency), without_blanks(size));
}

static json_t *link_json(const struct orr_links *links, const struct orr_link *l)
{
	return json_pack("{s:[i,i],s:[s,s],s:f,s:f}", "ranks", l->a, l->b, "hosts",
			 links->hosts[l->a], links->hosts[l->b], "latency",
			 (double)l->latency_ns / 1e9, "bandwidth", l->bandwidth_bytes_per_s);
}

/* Seconds and bytes per second, as everywhere. */
static json_t *links_json(const struct orr_links *links, struct orr_error *err)
{
	struct orr_link worst = worst_of(links);
	json_t *all = json_array(), *json = NULL;

	for (int i = 0; all && i < links->n_links; i++)
		if (json_array_append_new(all, link_json(links, &links->links[i]))) {
			json_decref(all);
			all = NULL;
		}
	if (all)
		json = json_pack("{s:i,s:o,s:f,s:f}", "ranks", links->n_ranks, "links", all,
				 "latency", (double)worst.latency_ns / 1e9, "bandwidth",
				 worst.bandwidth_bytes_per_s);
	if (!json)
		orr_fail(err, ORR_E_NOMEM, "no memory for the report");
	return json;
}

int links_profile(bool json, struct session *s)
{
	struct orr_links links;
	int code = orr_links_measure(&links, &s->err);

	if (code)
		return code;
	if (!s->rank && json)
		code = output_json(links_json(&links, &s->err), &s->err);
	else if (!s->rank)
		print(&links);
	orr_links_fini(&links);
	return code;
}
