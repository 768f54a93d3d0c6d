#pragma once
/* Graphs and their plans, short to write in a test. Any failure fails the test. */
#include "orrery/graph.h"
#include "orrery/plan.h"

struct orr_graph *parse_graph(const char *text); /* in DOT */
struct orr_graph *read_graph(const char *source);
const struct orr_operator *find_operator(const struct orr_graph *g, const char *name);
/* The encoders with their operators, "left:3 right:4"; up to the next call. */
const char *encoders(const struct orr_graph *g);
/* Costs of every operator: units forward and backward, bytes of its stash and parameters. */
void set_costs(struct orr_graph *g, int forward, int backward, int64_t stash, int64_t parameters);
/* A plan, whose timeline is checked. links: "1GB/s", NULL: free; a sample a microbatch and 10
 * GFLOP/s unless told. */
struct orr_plan *make_plan(const struct orr_graph *g, const char *workers, const char *links,
			   struct orr_plan_options o);
/* The message of one that is refused, for free links; up to the next call. */
const char *refuse_plan(const struct orr_graph *g, const char *workers, struct orr_plan_options o);
void plan_end(struct orr_plan *plan, struct orr_graph *g); /* destroy both */
