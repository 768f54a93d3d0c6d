#include "parts.h"

#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "base/json.h"
#include "base/max.h"
#include "base/quantity.h"

const char *orr_part_text(const struct orr_pipeline *p, int s)
{
	const struct orr_split *split = p->split;

	return !split ? ""
		      : orr_text("stage %d, worker %d of %d, level %d", split->stage[s],
				 split->shard[s], split->width[split->stage[s]], split->level[s]);
}

json_t *orr_part_json(const struct orr_pipeline *p, int s)
{
	const struct orr_split *split = p->split;

	return json_pack("{s:i, s:i, s:i, s:i}", "stage", split->stage[s], "worker",
			 split->shard[s], "workers", split->width[split->stage[s]], "level",
			 split->level[s]);
}

/* ---- exchanges ---- */

#define N_COLLECTIVES (ORR_COLLECTIVE_ALL_TO_ALL + 1)
static const char *const collectives[N_COLLECTIVES] = {
	[ORR_COLLECTIVE_REDUCE_SCATTER] = "reduce-scatter",
	[ORR_COLLECTIVE_ALL_GATHER] = "all-gather",
	[ORR_COLLECTIVE_ALL_TO_ALL] = "all-to-all",
};

struct exchanges {
	int n[N_COLLECTIVES]; /* forward; each has an operator on the first worker */
	int64_t bytes;        /* between workers of a group, forward and backward */
};

static struct exchanges find_exchanges(const struct orr_pipeline *p)
{
	struct exchanges x = {{0}, 0};

	for (int i = 0; p->graph && i < p->graph->n_operators; i++)
		x.n[p->graph->operators[i].collective] += p->graph->operators[i].shard == 0;
	for (int e = 0; e < p->n_edges; e++) {
		const struct orr_edge *edge = &p->edges[e];

		if (p->split->stage[edge->from] == p->split->stage[edge->to] &&
		    p->split->shard[edge->from] != p->split->shard[edge->to])
			x.bytes += edge->bytes + edge->gradient_bytes;
	}
	return x;
}

/* Those that compute. */
static int count_busy(const struct orr_groups *groups)
{
	int n = 0;

	for (int g = 0; g < groups->n; g++)
		n += groups->jobs->first[g + 1] > groups->jobs->first[g];
	return n;
}

static void find_widths(const struct orr_groups *groups, int *least, int *most)
{
	*least = *most = groups->first[1];
	for (int g = 1; g < groups->n; g++) {
		int width = groups->first[g + 1] - groups->first[g];

		*least = (int)smaller(width, *least);
		*most = (int)larger(width, *most);
	}
}

void orr_groups_write(FILE *file, const struct orr_jobs *jobs)
{
	const struct orr_groups *groups = jobs->groups;
	struct exchanges x;
	int least, most, busy, n = 0;

	if (!groups)
		return;
	busy = count_busy(groups);
	x = find_exchanges(jobs->pipeline);
	find_widths(groups, &least, &most);
	fprintf(file, "split        %s on ", orr_count_text(groups->pipeline.n_stages, "stage"));
	if (busy < groups->n)
		fprintf(file, "%d of ", busy);
	fprintf(file, "%s of ", orr_count_text(groups->n, "group"));
	if (least < most)
		fprintf(file, "%d to ", least);
	fprintf(file, "%d workers; forward of a microbatch ", most);
	for (int c = 0; c < N_COLLECTIVES; c++)
		if (collectives[c] && x.n[c])
			fprintf(file, "%s%s", n++ ? ", " : "",
				orr_count_text(x.n[c], collectives[c]));
	fprintf(file, "%s, %s both ways\n", n ? "" : "no exchange", orr_size_text(x.bytes));
}

json_t *orr_groups_json(const struct orr_jobs *jobs)
{
	const struct orr_groups *groups = jobs->groups;
	struct exchanges x = find_exchanges(jobs->pipeline);

	return json_pack("{s:i, s:o, s:i, s:i, s:i, s:I}", "stages", groups->pipeline.n_stages,
			 "groups", orr_json_integers(groups->first, groups->n), "reduce_scatters",
			 x.n[ORR_COLLECTIVE_REDUCE_SCATTER], "all_gathers",
			 x.n[ORR_COLLECTIVE_ALL_GATHER], "all_to_alls",
			 x.n[ORR_COLLECTIVE_ALL_TO_ALL], "bytes", (json_int_t)x.bytes);
}
