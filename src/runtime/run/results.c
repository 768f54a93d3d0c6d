#include "orrery/run.h"

#include <stdio.h>
#include "orrery/graph.h"
#include "parts.h"

const char *orr_run_version(void)
{
	static char version[80];
	const char *what = "CPU worker";
	int major, minor, release, n = orr_hardware_cores();

	starpu_get_version(&major, &minor, &release);
	if (starpu_is_initialized() && starpu_cuda_worker_get_count()) {
		n = (int)starpu_cuda_worker_get_count();
		what = "CUDA worker";
	}
	snprintf(version, sizeof(version), "StarPU %d.%d.%d, %d %s%s", major, minor, release, n,
		 what, n == 1 ? "" : "s");
	return version;
}

int orr_run_check_whole(const struct orr_run *run, struct orr_error *err)
{
	if (!run->trained.failed)
		return 0;
	return orr_fail(err, run->trained.failed,
			"run: it has failed before; its parameters are not whole");
}

int64_t orr_run_owned_floats(const struct orr_run *run)
{
	const struct orr_work *work = &run->work;
	int64_t n = 0;

	for (int s = 0; s < work->pipeline->n_stages; s++)
		if (orr_work_has(work, run->data.owned[work->jobs->first_owner[s]].w))
			n += orr_work_n_parameters(work, s) +
			     orr_work_n_trained(work, s) * run->data.n_state;
	return n;
}

int64_t orr_run_n_parameters(const struct orr_run *run)
{
	const struct orr_graph *g = orr_graph_whole(run->work.pipeline->graph);
	int64_t n = 0;

	for (int k = 0; k < g->n_operators; k++)
		n += g->operators[k].n_parameters;
	return n;
}

const struct orr_timeline *orr_run_timeline(const struct orr_run *run)
{
	return run->gather.has_timeline ? run->gather.timeline : NULL;
}

int orr_run_versions(struct orr_run *run, struct orr_run_versions *stages, struct orr_error *err)
{
	return orr_version_buffers_report(&run->versions, stages, err);
}

int64_t orr_run_peak_bytes(const struct orr_run *run)
{
	return run->resident_before < 0 ? -1 : run->resident_peak - run->resident_before;
}

int orr_run_moved(const struct orr_run *run, struct orr_moved *moved, int most)
{
	const struct orr_copies *copies = &run->copies;
	int n = 0;

	for (int from = 0; from < STARPU_MAXNODES; from++)
		for (int to = 0; to < STARPU_MAXNODES && n < most; to++) {
			if (!copies->moved[from][to].n)
				continue;
			moved[n] = (struct orr_moved){.n = copies->moved[from][to].n,
						      .bytes = copies->moved[from][to].bytes};
			starpu_memory_node_get_name((unsigned)from, moved[n].from,
						    sizeof(moved[n].from));
			starpu_memory_node_get_name((unsigned)to, moved[n].to, sizeof(moved[n].to));
			n++;
		}
	return n;
}

int orr_run_mapping(struct orr_run *run, struct orr_mapping *places, struct orr_error *err)
{
	const struct orr_work *work = &run->work;
	int code = 0;

	for (int w = 0; w < work->pipeline->n_workers; w++)
		places[w] = (struct orr_mapping){
			.w = w,
			.rank = work->rank_of[w],
			.id = orr_work_has(work, w) ? orr_policy_worker(run->session.policy, w)
						    : -1,
		};
	orr_hardware_describe(places, work->pipeline->n_workers);
	for (int w = 0; w < work->pipeline->n_workers && !code; w++)
		if (orr_work_has(work, w) && work->rank)
			code = orr_ranks_send(0, ORR_RANKS_FIRST_TAG, &places[w], sizeof(*places),
					      err);
		else if (!orr_work_has(work, w) && !work->rank)
			code = orr_ranks_receive(work->rank_of[w], ORR_RANKS_FIRST_TAG, &places[w],
						 sizeof(*places), err);
	return code;
}
