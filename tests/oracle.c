#include "oracle.h"

#include <assert.h>
#include <string.h>

enum what { ACTIVATION, GRADIENT, STASH, FETCH, WEIGHT_GRADIENT, RING };

struct message {
	enum what what;
	int s, producer, consumer, from, to;
	int64_t asked, n, bytes;
	int64_t free, arrival; /* -1: has not started */
	bool left, arrived;
};

struct state {
	const struct oracle_step *step;
	struct oracle_answer *answer;
	int64_t now;
	int waits[ORACLE_JOBS];
	bool running[ORACLE_WORKERS];
	int64_t until[ORACLE_WORKERS], last_update;
	struct message messages[16 * ORACLE_JOBS];
	int n_messages;
	int gradients[ORACLE_STAGES]; /* that are not yet with their owner */
	bool update_due[ORACLE_STAGES][ORACLE_WORKERS];
};

static int job(const struct oracle_step *t, int s, int b, int d)
{
	return (b * t->n_stages + s) * t->n_passes + d;
}
static int stage_of(const struct oracle_step *t, int j)
{
	return j / t->n_passes % t->n_stages;
}
static int microbatch_of(const struct oracle_step *t, int j)
{
	return j / t->n_passes / t->n_stages;
}
static int n_jobs(const struct oracle_step *t)
{
	return t->n_stages * t->n_microbatches * t->n_passes;
}

static bool has_links(const struct oracle_step *t)
{
	return t->latency || t->ns_per_byte[0] || t->ns_per_byte[1];
}

bool oracle_reaches(const struct oracle_step *t, int s)
{
	bool sink = true;

	for (int o = 0; o < t->n_stages; o++) {
		sink = sink && !t->edge[s][o];
		if (t->edge[s][o] && !t->detached[s][o] && oracle_reaches(t, o))
			return true;
	}
	return sink;
}

/* Is anything trained from which a gradient of stage s would be for, s itself included? */
static bool serves(const struct oracle_step *t, int s)
{
	if (!t->frozen[s])
		return true;
	for (int o = 0; o < s; o++)
		if (t->edge[o][s] && !t->detached[o][s] && serves(t, o))
			return true;
	return false;
}

/* Does stage s send a gradient back to stage o? */
static bool sends(const struct oracle_step *t, int s, int o)
{
	return t->edge[o][s] && !t->detached[o][s] && serves(t, o) && oracle_reaches(t, s);
}

static bool has_input_gradient(const struct oracle_step *t, int s)
{
	bool source = true;

	for (int o = 0; o < s; o++) {
		if (sends(t, s, o))
			return true;
		source = source && !t->edge[o][s];
	}
	return source && !t->frozen[s];
}

bool oracle_has(const struct oracle_step *t, int j)
{
	int s = stage_of(t, j), d = j % t->n_passes;

	if (d == 0)
		return true;
	if (d == 2)
		return !t->frozen[s];
	return has_input_gradient(t, s) || (t->n_passes == 2 && !t->frozen[s]);
}

static int64_t length_of(const struct oracle_step *t, int j)
{
	int s = stage_of(t, j), d = j % t->n_passes;
	int64_t half = t->length[s][1] / 2; /* of a whole backward is the weight gradient */

	if (d != 1 || t->n_passes == 3)
		return t->length[s][d];
	return (has_input_gradient(t, s) ? t->length[s][1] - half : 0) + (t->frozen[s] ? 0 : half);
}

/* The pass of its stage and microbatch before job j, or the one after it; -1: none. */
static int beside(const struct oracle_step *t, int j, int step)
{
	int d = j % t->n_passes;

	for (j += step, d += step; d >= 0 && d < t->n_passes; j += step, d += step)
		if (oracle_has(t, j))
			return j;
	return -1;
}

/* Is its gradient one of the parameters? */
static bool learns(const struct oracle_step *t, int j)
{
	return !t->frozen[stage_of(t, j)] && beside(t, j, 1) < 0;
}

static bool has_updates(const struct oracle_step *t)
{
	for (int s = 0; s < t->n_stages; s++)
		if (t->frozen[s])
			continue;
		else if (t->update[s] || (has_links(t) && t->parameters[s]))
			return true;
	return false;
}

int oracle_before(const struct oracle_step *t, int j, int *before)
{
	int s = stage_of(t, j), b = microbatch_of(t, j), d = j % t->n_passes, n = 0;

	if (!oracle_has(t, j))
		return 0;
	for (int o = 0; o < t->n_stages; o++)
		if (d == 0 && t->edge[o][s])
			before[n++] = job(t, o, b, 0);
		else if (d > 0 && beside(t, j, -1) == job(t, s, b, 0) && sends(t, o, s))
			before[n++] = job(t, o, b, 1);
	if (d > 0)
		before[n++] = beside(t, j, -1);
	if (d == 0 && t->cap[s] && b >= t->cap[s] && beside(t, j, 1) >= 0) {
		int last = job(t, s, b - t->cap[s], 0);

		while (beside(t, last, 1) >= 0)
			last = beside(t, last, 1);
		before[n++] = last;
	}
	return n;
}

/* The owners of stage s in the order of the first microbatch, and pass, that they serve. */
static int owners_of(const struct oracle_step *t, int s, int *owners)
{
	int n = 0;

	for (int b = 0; b < t->n_microbatches; b++)
		for (int d = 0; d < t->n_passes; d++) {
			int owner = t->weights[job(t, s, b, d)], i = 0;

			if (!oracle_has(t, job(t, s, b, d)))
				continue;
			while (i < n && owners[i] != owner)
				i++;
			owners[i] = owner;
			n = i == n ? n + 1 : n;
		}
	return n;
}

static int64_t wire(const struct oracle_step *t, int from, int to, int64_t bytes)
{
	return bytes * t->ns_per_byte[from / t->group != to / t->group];
}

static bool fetches(const struct oracle_step *t, int j)
{
	return oracle_has(t, j) && has_links(t) && t->weights[j] != t->compute[j] &&
	       t->parameters[stage_of(t, j)] > 0;
}

static void ask(struct state *x, enum what what, int producer, int consumer, int from, int to,
		int64_t bytes)
{
	const struct oracle_step *t = x->step;
	struct message *m = &x->messages[x->n_messages++];

	assert(x->n_messages <= 16 * ORACLE_JOBS);
	*m = (struct message){what,     stage_of(t, consumer < 0 ? producer : consumer),
			      producer, consumer,
			      from,     to,
			      x->now,   consumer < 0 ? INT64_MAX : t->n[consumer],
			      bytes,    -1,
			      -1,       false,
			      false};
}

static void fetch(struct state *x, int j)
{
	if (fetches(x->step, j))
		ask(x, FETCH, -1, j, x->step->weights[j], x->step->compute[j],
		    x->step->parameters[stage_of(x->step, j)]);
}

static void deliver(struct state *x, int j)
{
	if (--x->waits[j] == 1 && x->step->greedy)
		fetch(x, j);
}

static void make_updates_due(struct state *x, int s)
{
	int owners[ORACLE_WORKERS], k = owners_of(x->step, s, owners);

	for (int i = 0; i < k; i++)
		x->update_due[s][owners[i]] = true;
}

static void deliver_gradient(struct state *x, int s)
{
	int owners[ORACLE_WORKERS];

	if (--x->gradients[s])
		return;
	if (has_links(x->step) && x->step->parameters[s] && owners_of(x->step, s, owners) > 1)
		ask(x, RING, job(x->step, s, x->step->n_microbatches - 1, x->step->n_passes - 1),
		    -1, -1, -1, x->step->parameters[s]);
	else
		make_updates_due(x, s);
}

static void end_job(struct state *x, int j)
{
	const struct oracle_step *t = x->step;
	int s = stage_of(t, j), b = microbatch_of(t, j), d = j % t->n_passes,
	    before[ORACLE_STAGES + 2];

	for (int k = 0; k < n_jobs(t); k++)
		for (int i = 0, n = oracle_before(t, k, before); i < n; i++) {
			int from = t->compute[j], to = t->compute[k], o = stage_of(t, k);

			if (before[i] != j)
				continue;
			if (!has_links(t) || from == to || microbatch_of(t, k) != b)
				deliver(x, k);
			else
				ask(x,
				    o == s   ? STASH
				    : d == 0 ? ACTIVATION
					     : GRADIENT,
				    j, k, from, to,
				    o == s   ? t->stash[s]
				    : d == 0 ? t->bytes[s][o]
					     : t->gradient_bytes[o][s]);
		}
	if (!has_updates(t) || !learns(t, j))
		return;
	if (has_links(t) && t->weights[j] != t->compute[j])
		ask(x, WEIGHT_GRADIENT, j, -1, t->compute[j], t->weights[j], t->parameters[s]);
	else
		deliver_gradient(x, s);
}

/* Does anything end now? */
static bool end_all(struct state *x)
{
	bool any = false;

	for (int w = 0; w < x->step->n_workers; w++)
		if (x->running[w] && x->until[w] == x->now) {
			x->running[w] = false;
			any = true;
			for (int j = 0; j < n_jobs(x->step); j++)
				if (x->step->compute[j] == w && x->answer->end[j] == -2) {
					x->answer->end[j] = x->now;
					end_job(x, j);
				}
		}
	for (int i = 0; i < x->n_messages; i++) {
		struct message *m = &x->messages[i];

		if (m->arrival >= 0 && !m->left && m->free == x->now)
			m->left = any = true;
		if (m->arrival < 0 || m->arrived || m->arrival != x->now)
			continue;
		m->arrived = any = true;
		if (m->what == RING)
			make_updates_due(x, m->s);
		else if (m->consumer >= 0)
			deliver(x, m->consumer);
		else
			deliver_gradient(x, m->s);
	}
	return any;
}

static int next_job(const struct state *x, int w)
{
	const struct oracle_step *t = x->step;
	int best = -1;

	for (int j = 0; j < n_jobs(t); j++)
		if (oracle_has(t, j) && t->compute[j] == w && x->answer->start[j] < 0 &&
		    (!t->greedy || !x->waits[j]) && (best < 0 || t->n[j] < t->n[best]))
			best = j;
	return best;
}

static bool start_worker(struct state *x, int w)
{
	const struct oracle_step *t = x->step;
	int j;

	if (x->running[w])
		return false;
	for (int s = 0; s < t->n_stages; s++)
		if (x->update_due[s][w]) {
			x->update_due[s][w] = false;
			x->running[w] = true;
			x->until[w] = x->now + t->update[s];
			x->answer->worker[w].busy += t->update[s];
			x->last_update =
				x->until[w] > x->last_update ? x->until[w] : x->last_update;
			return true;
		}
	j = next_job(x, w);
	if (j < 0 || x->waits[j])
		return false;
	x->running[w] = true;
	x->until[w] = x->now + length_of(t, j);
	x->answer->worker[w].busy += x->until[w] - x->now;
	x->answer->start[j] = x->now;
	x->answer->end[j] = -2;
	if (!t->greedy && (j = next_job(x, w)) >= 0)
		fetch(x, j);
	return true;
}

/* Marks the links that m takes. */
static void links_of(const struct oracle_step *t, const struct message *m,
		     bool taken[][ORACLE_WORKERS])
{
	int owners[ORACLE_WORKERS], k = m->what == RING ? owners_of(t, m->s, owners) : 0;

	if (!k)
		taken[m->from][m->to] = taken[m->to][m->from] = true;
	for (int i = 0; i < k; i++)
		taken[owners[i]][owners[(i + 1) % k]] = taken[owners[(i + 1) % k]][owners[i]] =
			true;
}

static bool share_a_link(const struct oracle_step *t, const struct message *a,
			 const struct message *b)
{
	bool of_a[ORACLE_WORKERS][ORACLE_WORKERS] = {{false}},
	     of_b[ORACLE_WORKERS][ORACLE_WORKERS] = {{false}};

	links_of(t, a, of_a);
	links_of(t, b, of_b);
	for (int v = 0; v < t->n_workers; v++)
		for (int w = 0; w < t->n_workers; w++)
			if (of_a[v][w] && of_b[v][w])
				return true;
	return false;
}

static bool goes_before(const struct message *a, const struct message *b)
{
	int ja = a->consumer < 0 ? a->producer : a->consumer,
	    jb = b->consumer < 0 ? b->producer : b->consumer;

	if (a->asked != b->asked)
		return a->asked < b->asked;
	return a->n != b->n ? a->n < b->n : ja != jb ? ja < jb : a < b;
}

static bool start_message(struct state *x, struct message *m)
{
	const struct oracle_step *t = x->step;
	int owners[ORACLE_WORKERS], k;
	int64_t slowest = 0;

	if (m->arrival >= 0)
		return false;
	for (int i = 0; i < x->n_messages; i++) {
		const struct message *o = &x->messages[i];

		if (o != m && !o->left && (o->arrival >= 0 || goes_before(o, m)) &&
		    share_a_link(t, o, m))
			return false;
	}
	if (m->what != RING) {
		m->free = x->now + wire(t, m->from, m->to, m->bytes);
	} else {
		k = owners_of(t, m->s, owners);
		for (int i = 0; i < k; i++)
			if (wire(t, owners[i], owners[(i + 1) % k], 1) > slowest)
				slowest = wire(t, owners[i], owners[(i + 1) % k], 1);
		m->free = x->now + 2 * (k - 1) * (t->latency + m->bytes / k * slowest) - t->latency;
	}
	m->arrival = m->free + t->latency;
	return true;
}

static bool start_all(struct state *x)
{
	bool any = false;

	for (int w = 0; w < x->step->n_workers; w++)
		any = start_worker(x, w) || any;
	for (int i = 0; i < x->n_messages; i++)
		any = start_message(x, &x->messages[i]) || any;
	return any;
}

/* To the next instant at which something ends; false: nothing will. */
static bool advance(struct state *x)
{
	int64_t next = INT64_MAX;

	for (int w = 0; w < x->step->n_workers; w++)
		if (x->running[w] && x->until[w] < next)
			next = x->until[w];
	for (int i = 0; i < x->n_messages; i++) {
		const struct message *m = &x->messages[i];

		if (m->arrival >= 0 && !m->left && m->free < next)
			next = m->free;
		if (m->arrival >= 0 && !m->arrived && m->arrival < next)
			next = m->arrival;
	}
	x->now = next;
	return next < INT64_MAX;
}

/* What worker w holds of (s,b) right after `time`, or right before it: 0 or 1. */
static int holds(const struct state *x, int w, int s, int b, int64_t time)
{
	const struct oracle_step *t = x->step;

	for (int d = 0; d < t->n_passes; d++) {
		int j = job(t, s, b, d);
		int next = beside(t, j, 1);
		int64_t until = next >= 0 ? x->answer->start[next] : x->answer->end[j];

		if (oracle_has(t, j) && (d > 0 || next >= 0) && t->compute[j] == w &&
		    x->answer->start[j] <= time && time < until)
			return 1;
	}
	return 0;
}

static void find_peaks(struct state *x)
{
	const struct oracle_step *t = x->step;

	for (int at = 0; at < n_jobs(t); at++)
		for (int w = 0; w < t->n_workers; w++) {
			int64_t bytes = 0;
			int count = 0;

			for (int s = 0; s < t->n_stages; s++)
				for (int b = 0; b < t->n_microbatches; b++) {
					int held = holds(x, w, s, b, x->answer->start[at]);

					count += held;
					bytes += held * t->stash[s];
				}
			if (count > x->answer->worker[w].peak_stash)
				x->answer->worker[w].peak_stash = count;
			if (bytes > x->answer->worker[w].peak_stash_bytes)
				x->answer->worker[w].peak_stash_bytes = bytes;
		}
}

/* By placement alone, whatever the links. */
static void count_bytes(struct state *x)
{
	const struct oracle_step *t = x->step;
	int before[ORACLE_STAGES + 2], owners[ORACLE_WORKERS];

	for (int j = 0; j < n_jobs(t); j++) {
		struct oracle_worker *worker = &x->answer->worker[t->compute[j]];
		int s = stage_of(t, j), b = microbatch_of(t, j);

		for (int i = 0, n = oracle_before(t, j, before); i < n; i++) {
			int o = stage_of(t, before[i]);

			if (t->compute[before[i]] == t->compute[j] ||
			    microbatch_of(t, before[i]) != b)
				continue;
			if (o == s)
				worker->stashes += t->stash[s];
			else if (t->edge[o][s])
				worker->activations += t->bytes[o][s];
			else
				worker->gradients += t->gradient_bytes[s][o];
		}
		if (!oracle_has(t, j) || t->weights[j] == t->compute[j])
			continue;
		worker->fetched += t->parameters[s];
		if (learns(t, j))
			worker->weight_gradients += t->parameters[s];
	}
	for (int s = 0; s < t->n_stages; s++)
		for (int i = 0, k = owners_of(t, s, owners); i < k; i++)
			x->answer->worker[owners[i]].reduced +=
				t->frozen[s] ? 0 : 2 * (k - 1) * (t->parameters[s] / k);
}

static void begin(struct state *x)
{
	const struct oracle_step *t = x->step;
	int before[ORACLE_STAGES + 2];

	for (int j = 0; j < n_jobs(t); j++) {
		x->answer->start[j] = x->answer->end[j] = -1;
		x->waits[j] = oracle_before(t, j, before) + fetches(t, j);
	}
	for (int j = 0; t->greedy && j < n_jobs(t); j++)
		if (oracle_has(t, j) && x->waits[j] == 1 && !oracle_before(t, j, before))
			fetch(x, j);
	for (int w = 0; !t->greedy && w < t->n_workers; w++)
		if (next_job(x, w) >= 0)
			fetch(x, next_job(x, w));
	for (int s = 0; s < t->n_stages; s++)
		x->gradients[s] = t->n_microbatches;
}

void oracle_simulate(const struct oracle_step *step, struct oracle_answer *answer)
{
	static struct state state;
	struct state *x = &state;
	int64_t first = INT64_MAX, last = 0;

	memset(x, 0, sizeof(*x));
	memset(answer, 0, sizeof(*answer));
	x->step = step;
	x->answer = answer;
	begin(x);
	do {
		do
			while (end_all(x))
				;
		while (start_all(x));
	} while (advance(x));
	for (int j = 0; j < n_jobs(step); j++) {
		if (!oracle_has(step, j))
			continue;
		first = answer->start[j] < first ? answer->start[j] : first;
		last = answer->end[j] > last ? answer->end[j] : last;
	}
	last = x->last_update > last ? x->last_update : last;
	answer->makespan = last - first;
	find_peaks(x);
	count_bytes(x);
}
