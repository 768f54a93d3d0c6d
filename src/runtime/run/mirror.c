#include "mirror.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arrays.h"
#include "base/input_file.h"
#include "base/max.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/sink.h"
#include "checkpoint/steps.h"
#include "orrery/run.h"

#define TAG (ORR_RANKS_FIRST_TAG + 2)
/* Beside training, whose messages wait behind one of these at most: 8 ms at 1 Gbit/s. */
#define PIECE_BYTES ((int64_t)1 << 20)

/* One that comes; without bytes where its rank has failed. */
struct incoming {
	int from;
	struct orr_shard shard;
	struct orr_sink sink;
};

struct mirror {
	int to, n; /* the rank that keeps this one's shard; shards that come */
	struct orr_folder folder;
	int fd; /* of this rank's own shard; -1: what is sent is wrong, and its checksum says it */
	struct incoming *incoming;
	char *sent, *received; /* pieces */
	int64_t n_rounds;
	struct orr_arrays all;
};

static int64_t rounds_of(const struct orr_shard *shard)
{
	return (shard->n_bytes + PIECE_BYTES - 1) / PIECE_BYTES;
}

static int64_t piece_at(const struct orr_shard *shard, int64_t round)
{
	return larger(smaller(shard->n_bytes - round * PIECE_BYTES, PIECE_BYTES), 0);
}

static int open_all(struct mirror *x, const struct orr_hosts *hosts, int64_t step,
		    const struct orr_shard *own, struct orr_error *err)
{
	x->to = orr_hosts_buddy(hosts, hosts->rank);
	x->fd = x->folder.fd = -1;
	orr_arrays_make(&x->all, x->incoming, hosts->n_ranks);
	orr_arrays_make(&x->all, x->sent, PIECE_BYTES);
	orr_arrays_make(&x->all, x->received, PIECE_BYTES);
	if (x->all.failed)
		return orr_no_memory(err, "copy");
	for (int k = 0; k < hosts->n_ranks; k++)
		if (orr_hosts_buddy(hosts, k) == hosts->rank)
			x->incoming[x->n++].from = k;
	if (orr_checkpoint_unfinished(&x->folder, hosts->folder, step, err) ||
	    (own->n_bytes && orr_folder_file(&x->folder, orr_step_shard_name(own->number), O_RDONLY,
					     &x->fd, NULL, err)))
		return ORR_E_IO;
	return 0;
}

/* Who gets which, before all else. */
static int announce(struct mirror *x, const struct orr_shard *own, struct orr_error *err)
{
	int code = orr_ranks_start_send(x->to, TAG, own, sizeof(*own), err);

	x->n_rounds = rounds_of(own);
	for (int i = 0; i < x->n && !code; i++) {
		struct incoming *in = &x->incoming[i];

		code = orr_ranks_receive(in->from, TAG, &in->shard, sizeof(in->shard), err);
		x->n_rounds = larger(x->n_rounds, rounds_of(&in->shard));
	}
	orr_ranks_sent();
	return code;
}

/* A piece each way: nobody waits for one that another sends later. */
static int pass_round(struct mirror *x, const struct orr_shard *own, int64_t round,
		      struct orr_error *err)
{
	int64_t n = piece_at(own, round);
	int code = 0;

	if (n && orr_read_at(x->fd, x->sent, (size_t)n, round * PIECE_BYTES))
		memset(x->sent, 0, (size_t)n);
	if (n)
		code = orr_ranks_start_send(x->to, TAG, x->sent, (size_t)n, err);
	for (int i = 0; i < x->n && !code; i++) {
		struct incoming *in = &x->incoming[i];

		if (!(n = piece_at(&in->shard, round)))
			continue;
		code = orr_ranks_receive(in->from, TAG, x->received, (size_t)n, err);
		orr_sink_write(&in->sink, x->received, (size_t)n);
	}
	orr_ranks_sent();
	return code;
}

/* Are they what was sent? */
static int end_sinks(struct mirror *x, int code, struct orr_error *err)
{
	char checksum[ORR_CHECKSUM];
	int64_t n_bytes;

	for (int i = 0; i < x->n; i++) {
		const struct orr_shard *shard = &x->incoming[i].shard;
		int failed = orr_sink_end(&x->incoming[i].sink, &n_bytes, checksum);

		code = code ? code : failed;
		if (!code && shard->n_bytes && strcmp(checksum, shard->checksum) != 0)
			code = orr_fail(err, ORR_E_IO, "the shard of rank %d came damaged",
					x->incoming[i].from);
	}
	return code;
}

int orr_mirror_shards(const struct orr_hosts *hosts, int64_t step, const struct orr_shard *own,
		      struct orr_error *err)
{
	struct mirror x = {0};
	int code = open_all(&x, hosts, step, own, err);

	if (x.all.failed) /* the others wait */
		orr_ranks_fail(1, "no memory for copies on other hosts");
	if (announce(&x, own, err))
		code = ORR_E_RUNTIME;
	for (int i = 0; i < x.n; i++)
		orr_sink_begin(&x.incoming[i].sink, &x.folder,
			       orr_step_shard_name(x.incoming[i].from), err);
	for (int64_t round = 0; round < x.n_rounds && code != ORR_E_RUNTIME; round++)
		if (pass_round(&x, own, round, err))
			code = ORR_E_RUNTIME;
	code = end_sinks(&x, code, err);
	if (x.fd >= 0)
		close(x.fd);
	orr_folder_close(&x.folder);
	orr_arrays_free(&x.all);
	return code;
}
