#include "session.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "orrery/ranks.h"

int session_join(struct session *s)
{
	int code = orr_ranks_start(command_say, &s->err);

	s->rank = orr_ranks_rank();
	s->n_ranks = orr_ranks_count();
	/* Parameters of others come and go: what has gone shall leave the rank, which malloc by
	 * itself sees to for a while only. */
	if (s->n_ranks > 1)
		mallopt(M_MMAP_THRESHOLD, 1 << 20);
	return code;
}

int session_agree(struct session *s, int code)
{
	return orr_ranks_agree(code, &s->err);
}

int session_max(struct session *s, int64_t *number)
{
	double *all = calloc((size_t)s->n_ranks, sizeof(*all));
	int code = all ? 0 : orr_fail(&s->err, ORR_E_NOMEM, "no memory for %d ranks", s->n_ranks);

	if ((code = session_agree(s, code)))
		goto out;
	all[s->rank] = (double)*number;
	if ((code = orr_ranks_sum(all, s->n_ranks, &s->err)))
		goto out;
	for (int k = 0; k < s->n_ranks; k++)
		*number = (int64_t)all[k] > *number ? (int64_t)all[k] : *number;
out:
	free(all);
	return code;
}

int session_check(struct session *s, int code)
{
	if (code && code != ORR_E_INPUT && code != ORR_E_DIVERGED)
		orr_ranks_fail(s->err.msg);
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

	orr_ranks_stop();
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
