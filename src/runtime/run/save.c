#include "save.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "mirror.h"
#include "parts.h"
#include "shard.h"

/* Of a message to rank 0, which may come while others that call a run exchange theirs. */
#define TAG (ORR_RANKS_FIRST_TAG + 1)
#define LOWEST 19 /* of the priorities that a thread can give itself */

/* How it went on a rank; no pointers. */
struct outcome {
	int code;
	struct orr_error err;
	struct orr_shard shard;
};

struct orr_saving {
	int rank, n_ranks, keep;
	bool is_copy;
	char *folder;
	int64_t step, samples, begun_ns, end_ns;
	json_t *about;               /* on a rank that leads */
	bool leads;                  /* rank 0, and the first of each other host with a copy */
	struct orr_shard_plan *plan; /* NULL: it is written */
	struct outcome *outcomes;    /* [n_ranks]; those of others on rank 0 */
	struct orr_run *run;
	pthread_t thread;
	bool runs;
};

void orr_saving_destroy(struct orr_saving *x)
{
	if (!x)
		return;
	json_decref(x->about);
	free(x->folder);
	free(x->outcomes);
	free(x);
}

void orr_saving_join(struct orr_run *run)
{
	struct orr_saving *x = run->saving;

	if (x && x->runs && !pthread_join(x->thread, NULL))
		x->runs = false;
}

static int fill(struct orr_saving *x, const struct orr_run *run, const char *folder,
		struct orr_error *err)
{
	int code = orr_run_check_whole(run, err);

	if (code)
		return code;
	x->folder = strdup(folder);
	x->outcomes = calloc((size_t)x->n_ranks, sizeof(*x->outcomes));
	if (!x->folder || !x->outcomes)
		return orr_no_memory(err, "checkpoint");
	if (!x->leads)
		return 0;
	x->about = orr_run_about(run, err);
	return x->about ? orr_checkpoint_begin(folder, x->step, x->n_ranks, err) : ORR_E_NOMEM;
}

/* Collective. */
static int begin(struct orr_saving **out, struct orr_run *run, const char *folder, bool is_copy,
		 struct orr_error *err)
{
	bool leads = is_copy && run->hosts.n ? orr_hosts_leads(&run->hosts) : !run->work.rank;
	struct orr_saving *x = calloc(1, sizeof(*x));
	int64_t step = orr_run_step(run);
	int code;

	orr_saving_join(run); /* its messages have the same tag */
	if (x)
		*x = (struct orr_saving){
			.rank = run->work.rank,
			.n_ranks = run->work.n_ranks,
			.is_copy = is_copy,
			.leads = leads,
			.step = step,
			.samples = step * orr_run_step_samples(run->work.jobs, &run->options),
			.begun_ns = orr_ns_now(CLOCK_MONOTONIC),
			.run = run,
		};
	code = orr_ranks_agree(x ? fill(x, run, folder, err) : orr_no_memory(err, "checkpoint"),
			       err);
	if (!code && !(code = orr_shard_begin(&x->plan, run, err))) {
		*out = x;
		return 0;
	}
	if (leads)
		orr_checkpoint_abandon(folder, step);
	orr_saving_destroy(x);
	return code;
}

static void write_shard(struct orr_saving *x)
{
	struct outcome *own = &x->outcomes[x->rank];

	own->code = orr_shard_write(x->plan, x->folder, x->step, &own->shard, &own->err);
	x->plan = NULL;
}

/* On a rank that leads, once all owners have written their part. */
static void commit(struct orr_saving *x)
{
	struct outcome *own = &x->outcomes[x->rank];
	struct orr_shard *shards = calloc((size_t)x->n_ranks, sizeof(*shards));

	if (!shards)
		own->code = orr_no_memory(&own->err, "checkpoint");
	for (int k = 0; k < x->n_ranks && shards; k++)
		shards[k] = x->outcomes[k].shard;
	if (!own->code)
		own->code = orr_checkpoint_commit(x->folder, x->step, x->samples, x->about, shards,
						  x->n_ranks, x->keep, &own->err);
	free(shards);
}

/* Does rank k lead another host? */
static bool leads(const struct orr_saving *x, int k)
{
	const struct orr_hosts *hosts = &x->run->hosts;

	return x->is_copy && k && orr_hosts_first(hosts, hosts->host_of[k]) == k;
}

/* To rank 0 from those that lead other hosts, or from all others; the first failure is its own. */
static void hear(struct orr_saving *x, bool of_all)
{
	struct outcome *own = &x->outcomes[0];

	for (int k = 1; k < x->n_ranks; k++)
		if ((of_all || leads(x, k)) &&
		    orr_ranks_receive(k, TAG, &x->outcomes[k], sizeof(*own), &own->err))
			own->code = ORR_E_RUNTIME;
	for (int k = x->n_ranks - 1; k >= 0; k--)
		if (x->outcomes[k].code) {
			own->code = x->outcomes[k].code;
			own->err = x->outcomes[k].err;
		}
}

/* It counts only where all owners have written their part, and every host with a copy has all that
 * it is to keep; all hear what came of it, so that none is done before. */
static void commit_all(struct orr_saving *x)
{
	struct outcome *own = &x->outcomes[0];

	hear(x, true);
	for (int k = 1; k < x->n_ranks; k++)
		if (leads(x, k))
			(void)orr_ranks_send(k, TAG, x->outcomes, (size_t)x->n_ranks * sizeof(*own),
					     NULL);
	if (!own->code)
		commit(x);
	hear(x, false);
	for (int k = 1; k < x->n_ranks; k++)
		(void)orr_ranks_send(k, TAG, own, sizeof(*own), NULL); /* or it is gone */
}

/* Every other rank's part in that. */
static int follow(struct orr_saving *x)
{
	struct outcome *own = &x->outcomes[x->rank], first;

	if (orr_ranks_send(0, TAG, own, sizeof(*own), NULL))
		return ORR_E_RUNTIME;
	if (x->leads) {
		if (orr_ranks_receive(0, TAG, x->outcomes, (size_t)x->n_ranks * sizeof(*own), NULL))
			return ORR_E_RUNTIME;
		if (!x->outcomes[0].code)
			commit(x);
		if (orr_ranks_send(0, TAG, own, sizeof(*own), NULL))
			return ORR_E_RUNTIME;
	}
	if (orr_ranks_receive(0, TAG, &first, sizeof(first), NULL))
		return ORR_E_RUNTIME;
	own->code = first.code;
	own->err = first.err;
	return 0;
}

/* The set before is given away only here, where all hosts have this one: whichever is lost, the
 * others have a whole one. What lies in its files is of the ranks and hosts of another start, if
 * this one has made no copy yet. */
static void tidy(struct orr_saving *x)
{
	if (x->outcomes[x->rank].code) {
		orr_checkpoint_abandon(x->folder, x->step);
		if (x->is_copy && x->run->hosts.n > 1) /* one that not all have */
			orr_checkpoint_drop(x->folder, x->step);
	} else if (x->is_copy && x->run->hosts.n > 1 && !x->run->copied) {
		orr_checkpoint_keep(x->folder, x->step, false);
	} else if (x->is_copy) {
		orr_checkpoint_recycle(x->folder, x->step);
	}
}

/* To another host. */
static void mirror(struct orr_saving *x)
{
	struct outcome *own = &x->outcomes[x->rank];
	const struct orr_shard none = {0};
	struct orr_error why;
	int code =
		orr_mirror_shards(&x->run->hosts, x->step, own->code ? &none : &own->shard, &why);

	if (code && !own->code) {
		own->code = code;
		own->err = why;
	}
}

/* From here on no rank waits for another in an order that others have to keep to. */
static void finish(struct orr_saving *x)
{
	if (x->plan)
		write_shard(x);
	if (x->is_copy && x->run->hosts.n > 1)
		mirror(x);
	if (!x->rank)
		commit_all(x);
	else if (follow(x))
		orr_ranks_fail(1, "checkpoint: rank 0 cannot be told of it"); /* and waits */
	if (x->leads)
		tidy(x);
	if (x->is_copy && !x->outcomes[x->rank].code)
		x->run->copied = x->step;
	x->end_ns = orr_ns_now(CLOCK_MONOTONIC);
	atomic_store(&x->run->watch.copies, false);
}

/* How it went; x goes. */
static int end(struct orr_saving *x, struct orr_error *err)
{
	const struct outcome *own = &x->outcomes[x->rank];
	int code = own->code;

	if (code && err)
		*err = own->err;
	orr_saving_destroy(x);
	return code;
}

int orr_run_save(struct orr_run *run, const char *folder, int keep, struct orr_error *err)
{
	struct orr_saving *x;
	int code = begin(&x, run, folder, false, err);

	if (code)
		return code;
	x->keep = keep;
	finish(x);
	return end(x, err);
}

/* ---- copies, beside training ---- */

/* Workers come first: it has the time in which they wait for each other. */
static void *finish_behind(void *user)
{
	struct orr_saving *x = user;

	(void)setpriority(PRIO_PROCESS, (id_t)gettid(), LOWEST);
	if (x->run->copying)
		x->run->copying();
	finish(x);
	return NULL;
}

int orr_run_copy(struct orr_run *run, const char *folder, struct orr_error *err)
{
	struct orr_saving *x;
	int code = orr_run_copied(run, NULL, err);

	if (!code && !run->hosts.n)
		code = orr_hosts_find(&run->hosts, folder, err);
	if (code || (code = begin(&x, run, folder, true, err)))
		return code;
	run->saving = x;
	if (!orr_shard_is_alone(x->plan))
		write_shard(x);
	atomic_store(&run->watch.copies, true);
	x->runs = !pthread_create(&x->thread, NULL, finish_behind, x);
	if (!x->runs)
		finish(x);
	return 0;
}

int orr_run_copied(struct orr_run *run, struct orr_copy_made *copied, struct orr_error *err)
{
	struct orr_saving *x = run->saving;

	if (copied)
		*copied = (struct orr_copy_made){0};
	if (!x)
		return 0;
	orr_saving_join(run);
	run->saving = NULL;
	if (copied)
		*copied = (struct orr_copy_made){.step = x->step, .ns = x->end_ns - x->begun_ns};
	for (int k = 0; k < x->n_ranks && copied; k++)
		copied->n_bytes += x->outcomes[k].shard.n_bytes;
	return end(x, err);
}
