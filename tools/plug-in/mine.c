/* A schedule in one file, to copy: 1F1B on any DAG of stages. README.md beside it explains each
 * line. */
#include <orrery/schedule.h>

/* w_compute: stages go round the workers, every pass and microbatch of a stage on one of them. */
static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)b, (void)d, (void)data;
	return s % p->n_workers;
}

/* At most depth(s) microbatches of stage s in flight: its distance from the loss, itself included.
 */
static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	(void)data;
	return p->stages[s].depth;
}

/* n: with unit times, F and B of a microbatch would run at these times; where two jobs want the
 * same, B goes first, then the stage nearer to the input. */
static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	int depth = p->stages[s].depth;
	int64_t time = 2 * b + p->depth + (d == ORR_PASS_F ? -depth : depth - 1);

	(void)data;
	return (2 * time + (d == ORR_PASS_F)) * p->n_stages + s;
}

static const struct orr_schedule mine = {
	.name = "mine",
	.summary = "one forward, one backward",
	.order = ORR_ORDER_STRICT,
	.compute = compute,
	.priority = priority,
	.in_flight = in_flight,
};
ORR_PLUGIN(mine);
