#include "graphs.h"
#include "suite.h"

#include <stdio.h>
#include <string.h>

#include "orrery/timeline.h"

struct orr_graph *parse_graph(const char *text)
{
	struct orr_graph *g = NULL;
	struct orr_error err = {""};

	ck_assert_msg(orr_graph_parse(&g, "test.dot", text, &err) == 0, "%s", err.msg);
	return g;
}

struct orr_graph *read_graph(const char *source)
{
	struct orr_graph *g = NULL;
	struct orr_error err = {""};

	ck_assert_msg(orr_graph_read(&g, source, &err) == 0, "%s", err.msg);
	return g;
}

const struct orr_operator *find_operator(const struct orr_graph *g, const char *name)
{
	int i;

	for (i = 0; i < g->n_operators; i++)
		if (strcmp(g->operators[i].name, name) == 0)
			return &g->operators[i];
	ck_abort_msg("%s: no operator %s", g->name, name);
	return NULL;
}

const char *encoders(const struct orr_graph *g)
{
	static char text[512];
	int e, i, count, n = 0;

	text[0] = '\0';
	for (e = 0; e < g->n_encoders; e++) {
		for (i = count = 0; i < g->n_operators; i++)
			count += g->operators[i].encoder == e;
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%s:%d", e ? " " : "",
			      g->encoders[e], count);
	}
	return text;
}

void set_costs(struct orr_graph *g, int forward, int backward, int64_t stash, int64_t parameters)
{
	struct orr_study_costs costs = {
		forward * ORR_UNIT_NS, backward * ORR_UNIT_NS, -1, -1, stash, parameters, true};
	struct orr_error err = {""};

	ck_assert_msg(!orr_graph_set_costs(g, &costs, &err), "%s", err.msg);
}

static int try_plan(struct orr_plan **plan, const struct orr_graph *g, const char *workers,
		    const char *links, struct orr_plan_options o, struct orr_error *err)
{
	o.samples = o.samples ? o.samples : 1;
	o.flops_per_s = o.flops_per_s > 0 ? o.flops_per_s : 1e10;
	ck_assert_msg(!orr_levels_parse(&o.levels, workers, links, NULL, NULL, err), "%s",
		      err->msg);
	return orr_plan_create(plan, g, &o, err);
}

struct orr_plan *make_plan(const struct orr_graph *g, const char *workers, const char *links,
			   struct orr_plan_options o)
{
	struct orr_plan *plan = NULL;
	struct orr_error err = {""};

	ck_assert_msg(!try_plan(&plan, g, workers, links, o, &err), "%s", err.msg);
	ck_assert_msg(!orr_timeline_check(plan->tried.timeline, &err), "%s", err.msg);
	return plan;
}

const char *refuse_plan(const struct orr_graph *g, const char *workers, struct orr_plan_options o)
{
	static struct orr_error err;
	struct orr_plan *plan = NULL;

	ck_assert_int_eq(try_plan(&plan, g, workers, NULL, o, &err), ORR_E_INPUT);
	return err.msg;
}

void plan_end(struct orr_plan *plan, struct orr_graph *g)
{
	orr_plan_destroy(plan);
	orr_graph_destroy(g);
}
