#include "spread.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arrays.h"
#include "base/input_file.h"
#include "base/max.h"
#include "base/quantity.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/steps.h"
#include "orrery/run.h"

#define TAG (ORR_RANKS_FIRST_TAG + 3) /* of what all ranks agree on, and of answers */
#define ASK (ORR_RANKS_FIRST_TAG + 4)
#define PIECE_BYTES ((int64_t)1 << 20)

/* Bytes of a shard; none: its rank has no more questions. */
struct question {
	int rank, shard;
	int64_t at, n;
};

struct spread {
	const struct orr_hosts *hosts;
	int64_t step;
	json_t *manifest;
	int n;         /* shards */
	bool mine;     /* what this host has is of the same manifest */
	bool tried;    /* or of one before, of which a shard is whole nowhere */
	double *whole; /* [n * hosts->n] 1: this host has this shard, as it was written */
	bool *here;    /* [n] */
	int *asked;    /* [n] the first rank of a host that has it */
	char *piece;   /* of an answer */
	struct orr_arrays all;
	pthread_t thread; /* answers; on the first rank of each host */
	bool answers;
};

static void spread_free(struct spread *x)
{
	json_decref(x->manifest);
	orr_arrays_free(&x->all);
	free(x);
}

int orr_spread_newest(int64_t *step, const struct orr_hosts *hosts, int64_t last,
		      struct orr_error *err)
{
	double *newest = calloc((size_t)hosts->n_ranks, sizeof(*newest));
	int code = orr_ranks_agree(newest ? 0 : orr_no_memory(err, "copies"), err);

	*step = -1;
	if (!code) {
		newest[hosts->rank] = (double)orr_checkpoint_newest(hosts->folder, last);
		code = orr_ranks_sum(newest, hosts->n_ranks, err);
	}
	for (int k = 0; k < hosts->n_ranks && !code; k++)
		*step = larger(*step, (int64_t)newest[k]);
	free(newest);
	return code;
}

/* ---- one manifest ---- */

/* From rank `from` to all others. */
static int tell(json_t **manifest, const struct orr_hosts *hosts, int from, struct orr_error *err)
{
	char *text = hosts->rank == from ? json_dumps(*manifest, JSON_COMPACT) : NULL;
	size_t n = text ? strlen(text) : 0;
	int code = orr_ranks_agree(hosts->rank != from || text ? 0 : orr_no_memory(err, "copies"),
				   err);

	for (int k = 0; k < hosts->n_ranks && hosts->rank == from && !code; k++)
		if (k != from && !(code = orr_ranks_send(k, TAG, &n, sizeof(n), err)))
			code = orr_ranks_send(k, TAG, text, n, err);
	if (hosts->rank != from && !code &&
	    !(code = orr_ranks_receive(from, TAG, &n, sizeof(n), err))) {
		if (!(text = malloc(n + 1)))
			orr_ranks_fail(1, "no memory for a manifest, which others send");
		else if (!(code = orr_ranks_receive(from, TAG, text, n, err)) &&
			 !(*manifest = json_loadb(text, n, 0, NULL)))
			code = orr_no_memory(err, "copies");
	}
	free(text);
	return code;
}

/* That of the first rank that has one which was not tried; hosts with another one, of another
 * course that training went, have no part in it. */
static int agree_on_manifest(struct spread *x, struct orr_error *err)
{
	const struct orr_hosts *hosts = x->hosts;
	double *has = calloc((size_t)hosts->n_ranks, sizeof(*has));
	struct orr_error why = {""};
	int code, from = -1;
	json_t *own;

	(void)orr_checkpoint_manifest(&own, hosts->folder, x->step, &why);
	if (!(code = orr_ranks_agree(has ? 0 : orr_no_memory(err, "copies"), err))) {
		has[hosts->rank] = own && !x->tried;
		code = orr_ranks_sum(has, hosts->n_ranks, err);
	}
	for (int k = hosts->n_ranks - 1; k >= 0 && !code; k--)
		from = has[k] > 0 ? k : from;
	json_decref(x->manifest); /* of one before */
	x->manifest = NULL;
	if (!code && from < 0)
		code = orr_fail(err, ORR_E_INPUT, "%s", why.msg);
	if (hosts->rank == from)
		x->manifest = json_incref(own);
	if (!code && !(code = orr_ranks_agree(tell(&x->manifest, hosts, from, err), err)))
		x->mine = own && json_equal(own, x->manifest);
	json_decref(own);
	free(has);
	return code;
}

/* ---- which host has which shard ---- */

static bool is_anywhere(const struct spread *x, int i)
{
	for (int h = 0; h < x->hosts->n; h++)
		if (x->whole[i * x->hosts->n + h] > 0)
			return true;
	return false;
}

/* Of this host, a part for each of its ranks. Of what is damaged the first is told. */
static int look_through(struct spread *x, void (*report)(const char *line), struct orr_error *err)
{
	const struct orr_hosts *hosts = x->hosts;
	int size, place = orr_hosts_place(hosts, hosts->rank, &size), damaged = -1, code;
	struct orr_error why, first;

	for (int i = place; i < x->n && x->mine; i += size) {
		bool there;

		code = orr_checkpoint_has(hosts->folder, x->step, x->manifest, i, &there, &why);
		x->whole[i * hosts->n + hosts->own] = there && !code;
		if (there && code && damaged < 0) {
			damaged = i;
			first = why;
		}
	}
	if ((code = orr_ranks_sum(x->whole, x->n * hosts->n, err)))
		return code;
	if (damaged >= 0 && is_anywhere(x, damaged))
		report(orr_text("%s; that of another host is taken", first.msg));
	else if (damaged >= 0)
		code = orr_fail(err, ORR_E_INPUT, "%s", first.msg);
	return orr_ranks_agree(code, err);
}

/* From the next host round the ring, so that not all ask one. */
static int choose(struct spread *x, struct orr_error *err)
{
	const struct orr_hosts *hosts = x->hosts;

	for (int i = 0; i < x->n; i++) {
		x->asked[i] = -1;
		for (int h = hosts->n - 1; h >= 0; h--) {
			int host = (hosts->own + h) % hosts->n;

			if (x->whole[i * hosts->n + host] > 0)
				x->asked[i] = orr_hosts_first(hosts, host);
		}
		x->here[i] = x->whole[i * hosts->n + hosts->own] > 0;
		if (x->asked[i] < 0)
			return orr_fail(err, ORR_E_INPUT,
					"%s/%s: shard %d of %d is whole on no host that is left",
					hosts->folder, orr_step_name(x->step), i + 1, x->n);
	}
	return 0;
}

/* ---- questions and answers ---- */

/* 0 in front of what was asked for; else it is not sent. */
static int answer(const struct spread *x, const struct question *q, const int *fds)
{
	int code = orr_read_at(fds[q->shard], x->piece, (size_t)q->n, q->at) ? ORR_E_IO : 0;

	if (orr_ranks_send(q->rank, TAG, &code, sizeof(code), NULL) || code)
		return code;
	return orr_ranks_send(q->rank, TAG, x->piece, (size_t)q->n, NULL);
}

static void open_shards(const struct spread *x, int *fds)
{
	const json_t *shards = json_object_get(x->manifest, "shards");

	for (int i = 0; i < x->n; i++) {
		const json_t *entry = json_array_get(shards, (size_t)i);

		fds[i] = x->here[i]
				 ? open(orr_text("%s/%s/%s", x->hosts->folder,
						 orr_step_name(x->step),
						 json_string_value(json_object_get(entry, "file"))),
					O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
				 : -1;
	}
}

static void *answer_all(void *user)
{
	struct spread *x = user;
	int *fds = calloc((size_t)x->n + 1, sizeof(*fds));
	struct question q;

	if (!fds)
		orr_ranks_fail(1, "no memory to read copies for other hosts");
	open_shards(x, fds);
	for (int left = x->hosts->n_ranks; left;) {
		if (orr_ranks_receive(ORR_RANKS_ANY, ASK, &q, sizeof(q), NULL))
			orr_ranks_fail(1, "copies: no question of another rank comes");
		if (q.n)
			(void)answer(x, &q, fds);
		left -= !q.n;
	}
	for (int i = 0; i < x->n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(fds);
	return NULL;
}

/* As orr_read_at. */
static int ask(const struct orr_tensor_reader *reader, void *to, size_t n, int64_t at)
{
	const struct spread *x = reader->user;
	int rank = x->asked[reader->number], failed = 0;
	struct question q = {x->hosts->rank, reader->number, at, 0};

	for (size_t done = 0; done < n && !failed; done += (size_t)q.n) {
		q.at = at + (int64_t)done;
		q.n = smaller((int64_t)(n - done), PIECE_BYTES);
		if (orr_ranks_send(rank, ASK, &q, sizeof(q), NULL) ||
		    orr_ranks_receive(rank, TAG, &failed, sizeof(failed), NULL) ||
		    (!failed && orr_ranks_receive(rank, TAG, (char *)to + done, (size_t)q.n, NULL)))
			failed = -1;
	}
	return failed ? -1 : 0;
}

/* This rank asks no more; the first of a host goes on until nobody does. */
static void end(void *user)
{
	struct spread *x = user;
	const struct question over = {.rank = x->hosts->rank};

	for (int h = 0; h < x->hosts->n && x->hosts->n > 1; h++)
		(void)orr_ranks_send(orr_hosts_first(x->hosts, h), ASK, &over, sizeof(over), NULL);
	if (x->answers)
		pthread_join(x->thread, NULL);
	spread_free(x);
}

/* ---- all of it ---- */

/* Which shards there are, and where. */
static int find_shards(struct spread *x, void (*report)(const char *line), struct orr_error *err)
{
	int n_hosts = x->hosts->n, code = agree_on_manifest(x, err);

	if (code)
		return code;
	x->n = (int)json_array_size(json_object_get(x->manifest, "shards"));
	orr_arrays_free(&x->all);
	orr_arrays_make(&x->all, x->whole, x->n * n_hosts + 1);
	orr_arrays_make(&x->all, x->here, x->n + 1);
	orr_arrays_make(&x->all, x->asked, x->n + 1);
	orr_arrays_make(&x->all, x->piece, PIECE_BYTES);
	if ((code = orr_ranks_agree(x->all.failed ? orr_no_memory(err, "copies") : 0, err)) ||
	    (code = look_through(x, report, err)))
		return code;
	return choose(x, err);
}

int orr_spread_open(struct orr_checkpoint **out, const struct orr_hosts *hosts, int64_t step,
		    void (*report)(const char *line), struct orr_error *err)
{
	struct spread *x = calloc(1, sizeof(*x));
	struct orr_checkpoint_spread how = {.read = ask, .end = end, .user = x};
	struct orr_error later;
	int code = orr_ranks_agree(x ? 0 : orr_no_memory(err, "copies"), err);

	*out = NULL;
	if (code) {
		free(x);
		return code;
	}
	x->hosts = hosts;
	x->step = step;
	code = find_shards(x, report, err);
	while (code == ORR_E_INPUT && x->manifest) {
		x->tried = x->tried || x->mine;
		code = find_shards(x, report, &later);
	}
	if (code) {
		spread_free(x);
		return code;
	}
	if (hosts->n > 1 && orr_hosts_leads(hosts)) {
		x->answers = !pthread_create(&x->thread, NULL, answer_all, x);
		if (!x->answers)
			orr_ranks_fail(1, "no thread to read copies for other hosts");
	}
	how.here = x->here;
	code = orr_checkpoint_open_spread(out, hosts->folder, step, x->manifest, &how, err);
	if (!(code = orr_ranks_agree(code, err)))
		return 0;
	if (*out)
		orr_checkpoint_close(*out);
	else
		end(x);
	*out = NULL;
	return code;
}

void orr_spread_keep(const struct orr_hosts *hosts, int64_t step)
{
	if (orr_hosts_leads(hosts))
		orr_checkpoint_keep(hosts->folder, step, hosts->n == 1 && step >= 0);
}
