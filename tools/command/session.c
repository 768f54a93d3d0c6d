#include "session.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arrays.h"
#include "command.h"
#include "orrery/run.h"

/* What a step frees is there for the next one, which would fault it in again page by page. One
 * arena, since the others have no blocks above 64 MiB. */
static void keep_freed_memory(void)
{
#ifdef M_ARENA_MAX
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, -1);
	mallopt(M_TOP_PAD, 64 << 20);
#endif
}

/* Of a step: short ones may be a hundred times as long on a busy machine. */
#define LEAST_NS (INT64_C(2) * 1000000000)
#define LONG_NS (INT64_C(60) * 1000000000)
#define BEAT_NS (INT64_C(20) * 1000000)

/* least_ns: of the launcher's patience. */
static void beat(struct session *s, enum orr_beat_kind kind, int64_t step, int64_t least_ns)
{
	int64_t usual_ns = 5 * (s->longest_ns > s->before_ns ? s->longest_ns : s->before_ns);

	orr_beat_send(s->beat, kind, s->rank, step, usual_ns > least_ns ? usual_ns : least_ns);
	s->beaten_ns = orr_ns_now(CLOCK_MONOTONIC);
}

void session_step(struct session *s, int64_t step)
{
	int64_t since = orr_ns_now(CLOCK_MONOTONIC) - s->beaten_ns;

	if (since < BEAT_NS)
		return;
	s->longest_ns = since > s->longest_ns ? since : s->longest_ns;
	if (++s->n_beats % SESSION_RECENT == 0) {
		s->before_ns = s->longest_ns;
		s->longest_ns = 0;
	}
	beat(s, ORR_BEAT_STEP, step, LEAST_NS);
}

void session_beat(struct session *s, enum orr_beat_kind kind, int64_t step)
{
	beat(s, kind, step, LONG_NS + (kind == ORR_BEAT_OVER ? 0 : s->moved_ns));
}

int session_join(struct session *s)
{
	const char *starts = getenv(ORR_KEEP_STARTS), *ranks = getenv(ORR_KEEP_RANKS);
	int code;

	(void)orr_keep_join(
		NULL); /* where MPI has files, too; what needs the folder says why not */
	code = orr_ranks_start(command_say, &s->err);
	s->n_starts = starts ? atoi(starts) : 0;
	s->beat = orr_beat_connect();
	s->rank = orr_ranks_rank();
	s->n_ranks = orr_ranks_count();
	s->n_first = ranks && atoi(ranks) > s->n_ranks ? atoi(ranks) : s->n_ranks;
	session_beat(s, ORR_BEAT_LONG, 0);
	/* Parameters of others come and go: what has gone shall leave the rank, which malloc by
	 * itself sees to for a while only. */
	if (s->n_ranks > 1)
		mallopt(M_MMAP_THRESHOLD, 1 << 20);
	else
		keep_freed_memory();
	return code;
}

int session_agree(struct session *s, int code)
{
	return orr_ranks_agree(code, &s->err);
}

/* What the others would wait for in vain, where there is no memory. */
static void *allocate(struct session *s, size_t n, size_t size)
{
	void *memory = calloc(n, size);

	if (!memory)
		(void)session_check(s, orr_no_memory(&s->err, "train"));
	return memory;
}

int session_gather(struct session *s, int64_t *all, const int64_t *own, int n)
{
	size_t n_all = (size_t)s->n_ranks * (size_t)n;
	double *numbers = allocate(s, n_all, sizeof(*numbers));
	int code;

	if (!numbers)
		return ORR_E_NOMEM;
	for (int i = 0; i < n; i++)
		numbers[s->rank * n + i] = (double)own[i];
	code = orr_ranks_sum(numbers, (int)n_all, &s->err);
	for (size_t i = 0; i < n_all && !code; i++)
		all[i] = (int64_t)numbers[i];
	free(numbers);
	return code;
}

int session_max(struct session *s, int64_t *number)
{
	int64_t *all = allocate(s, (size_t)s->n_ranks, sizeof(*all));
	int code = all ? session_gather(s, all, number, 1) : ORR_E_NOMEM;

	for (int k = 0; k < s->n_ranks && !code; k++)
		*number = all[k] > *number ? all[k] : *number;
	free(all);
	return code;
}

int session_check(struct session *s, int code)
{
	if (!code || code == ORR_E_INPUT || code == ORR_E_DIVERGED)
		return code;
	if (code != ORR_E_RUNTIME) /* another start comes to the same */
		session_beat(s, ORR_BEAT_OVER, 0);
	orr_ranks_fail(command_status(code), s->err.msg);
	return code;
}

void session_say(const struct session *s, const char *format, ...)
{
	char line[1024];
	va_list args;

	if (s->rank)
		return;
	va_start(args, format);
	(void)vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	command_say(line);
}

int session_end(struct session *s, int code)
{
	/* before anybody leaves: mpirun ends all of them when one has left with another exit code
	 * than 0 */
	int status = s->rank ? command_status(code) : command_end(code, &s->err);

	session_beat(s, ORR_BEAT_OVER, 0);
	orr_ranks_stop();
	if (!s->signal) /* the launcher may have sent it to start all again */
		orr_keep_leave();
	orr_hosts_fini(&s->hosts);
	return status || !s->signal ? status : 128 + s->signal;
}

void session_refuse(const struct orr_error *err)
{
	struct session s = {0};

	/* where the others cannot be joined, each says it */
	(void)session_join(&s);
	s.err = *err;
	exit(session_end(&s, ORR_E_INPUT));
}
