#include "chain.h"

/* Where one worker runs the jobs that add to a gradient in their order, in the gradient's own
 * memory, StarPU need not order them as well: it starts none before it has seen the end of the one
 * before, and a device waits for that each time. The first one writes, so that no other memory has
 * the gradient. The others read, as far as StarPU knows; it makes no copy for that, and a block is
 * never evicted from its home. What else uses the gradient has to wait for all of them. */
static bool in_order(const struct orr_submitter *submitter, const struct orr_owned *o)
{
	return o->in_order && submitter->orders;
}

enum starpu_data_access_mode orr_chain_mode(const struct orr_submitter *submitter,
					    const struct orr_owned *o, const struct orr_task *t)
{
	if (t->arg.overwrite)
		return STARPU_W;
	return in_order(submitter, o) ? STARPU_R : STARPU_RW;
}

static void nothing(void *buffers[], void *cl_arg)
{
	(void)buffers;
	(void)cl_arg;
}

/* It runs nowhere, and moves nothing. */
static struct starpu_codelet close_codelet = {
	.name = "close",
	.where = STARPU_NOWHERE,
	.cpu_funcs = {nothing},
	.nbuffers = 1,
	.modes = {STARPU_RW},
};

int orr_chain_close(const struct orr_submitter *submitter, const struct orr_owned *o,
		    struct orr_error *err)
{
	struct starpu_task *task;

	if (!in_order(submitter, o))
		return 0;
	task = starpu_task_create();
	task->cl = &close_codelet;
	task->handles[0] = o->gradient.handle;
	if (!starpu_task_submit(task))
		return 0;
	task->destroy = 0;
	starpu_task_destroy(task);
	return orr_fail(err, ORR_E_RUNTIME, "run: StarPU refuses to end the gradient of stage %d",
			o->s);
}
