#include "oracle.h"

#include <assert.h>
#include <math.h>
#include <string.h>

__extension__ typedef __int128 wide;

enum what { ACTIVATION, GRADIENT, STASH, FETCH, WEIGHT_GRADIENT, RING };

struct message {
	enum what what;
	int s, producer, consumer, from, to;
	int64_t asked, n, bytes;
	int64_t free, arrival; /* -1: has not started */
	bool left, arrived;
	unsigned pieces; /* of an activation: outputs, and 1 << ORACLE_OUTPUTS: all else */
	int64_t start;
	int how, phase; /* of a ring: as all_reduce, and of phases_of() */
	/* where links are shared: what is left, in billionths of bytes per second and nanoseconds;
	 * -1: is still to be set */
	wide rest;
	wide rate;
};

struct state {
	const struct oracle_step *step;
	struct oracle_answer *answer;
	int64_t now, shared_since;
	int waits[ORACLE_JOBS];
	bool running[ORACLE_WORKERS];
	int64_t until[ORACLE_WORKERS], began[ORACLE_WORKERS], last_update;
	int runs[ORACLE_WORKERS];  /* the job; -1: an update */
	wide todo[ORACLE_WORKERS]; /* thousandths of ns, as of paced_since */
	int pace[ORACLE_WORKERS];
	int64_t paced_since;
	struct message messages[ORACLE_MESSAGES];
	int n_messages;
	int gradients[ORACLE_STAGES];                /* that are not yet with their owner */
	int unsummed[ORACLE_STAGES][ORACLE_WORKERS]; /* Bs that a worker has yet to add up */
	/* of what F makes, at a worker: pieces that are there for a stage; outputs are for all */
	unsigned came[ORACLE_JOBS][ORACLE_WORKERS][ORACLE_STAGES];
	int sums[ORACLE_STAGES]; /* that its update waits for */
	/* the job of its worker whose parameters, or gradient, have to be gone before it has a
	 * place for its own; -1: none */
	int fetches_after[ORACLE_JOBS], starts_after[ORACLE_JOBS];
	/* the gradient of a job: is made, and not sent; is with its owner */
	bool made[ORACLE_JOBS], there[ORACLE_JOBS];
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

int oracle_worker(const struct oracle_step *t, int j, int i)
{
	int s = stage_of(t, j);

	return t->has_set[s] ? t->set[s][i] : (t->compute[j] + i) % t->n_workers;
}

static bool is_on(const struct oracle_step *t, int j, int w)
{
	for (int i = 0; i < t->n_at[stage_of(t, j)]; i++)
		if (oracle_worker(t, j, i) == w)
			return true;
	return false;
}

static int64_t share(const struct oracle_step *t, int s, int64_t bytes)
{
	return (bytes + t->n_at[s] - 1) / t->n_at[s];
}

static bool has_links(const struct oracle_step *t)
{
	for (int v = 0; v < t->n_workers; v++)
		for (int w = 0; w < v; w++)
			if (t->latency[v][w] || t->ns_per_byte[v][w])
				return true;
	return false;
}

/* Rounded once, a half up. */
static int64_t on_worker(const struct oracle_step *t, int w, int64_t ns)
{
	return (2 * ns * t->speed[w][1] + t->speed[w][0]) / (2 * t->speed[w][0]);
}

bool oracle_reaches(const struct oracle_step *t, int s)
{
	bool sink = true;

	if (t->loss[s])
		return true;
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
	int64_t half = t->length[microbatch_of(t, j)][s][1] / 2; /* the weight gradient's part */
	int64_t length = t->length[microbatch_of(t, j)][s][d], longest = 0;

	if (t->lengths)
		return t->lengths[j];
	if (d == 1 && t->n_passes == 2)
		length = (has_input_gradient(t, s) ? length - half : 0) + (t->frozen[s] ? 0 : half);
	for (int i = 0; i < t->n_at[s]; i++) {
		int64_t here = on_worker(t, oracle_worker(t, j, i), length);

		longest = here > longest ? here : longest;
	}
	return longest;
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
		for (int e = 0; e < t->n_microbatches; e++)
			if (d == 0 && t->edge[o][s] && (e == b || t->gather[s]))
				before[n++] = job(t, o, e, 0);
			else if (d > 0 && beside(t, j, -1) == job(t, s, b, 0) && sends(t, o, s) &&
				 (e == b || t->gather[o]))
				before[n++] = job(t, o, e, 1);
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

/* Number n_stages + i is shared set i, a smaller one what a stage has alone. */
static int holders_of(const struct oracle_step *t, int set, int *owners)
{
	int n = 0, of_stage[ORACLE_WORKERS];

	if (set < t->n_stages)
		return owners_of(t, set, owners);
	for (int s = 0; s < t->n_stages; s++)
		for (int k = 0, r = t->shares[set - t->n_stages][s] ? owners_of(t, s, of_stage) : 0;
		     k < r; k++) {
			int i = 0;

			while (i < n && owners[i] != of_stage[k])
				i++;
			owners[i] = of_stage[k];
			n = i == n ? n + 1 : n;
		}
	return n;
}

static int64_t size_of(const struct oracle_step *t, int set)
{
	int64_t bytes;

	if (set >= t->n_stages)
		return t->shared[set - t->n_stages];
	bytes = t->parameters[set];
	for (int i = 0; i < t->n_sets; i++)
		bytes -= t->shares[i][set] ? t->shared[i] : 0;
	return bytes;
}

/* The last stage that has it. */
static int last_of(const struct oracle_step *t, int set)
{
	int s = t->n_stages - 1;

	while (set >= t->n_stages && !t->shares[set - t->n_stages][s])
		s--;
	return set < t->n_stages ? set : s;
}

static int64_t wire(const struct oracle_step *t, int from, int to, int64_t bytes)
{
	return bytes * t->ns_per_byte[from][to];
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

	assert(x->n_messages <= ORACLE_MESSAGES);
	*m = (struct message){what,     stage_of(t, consumer < 0 ? producer : consumer),
			      producer, consumer,
			      from,     to,
			      x->now,   consumer < 0 ? INT64_MAX : t->n[consumer],
			      bytes,    -1,
			      -1,       false,
			      false,    0,
			      -1,       0,
			      0,        -1,
			      0};
}

static void fetch(struct state *x, int j)
{
	if (fetches(x->step, j))
		ask(x, FETCH, -1, j, x->step->weights[j], x->step->compute[j],
		    x->step->parameters[stage_of(x->step, j)]);
}

static void deliver(struct state *x, int j)
{
	x->waits[j]--;
}

/* Its parameters are gone, and what another job needs comes in their place. */
static void fetch_after(struct state *x, int j)
{
	for (int k = 0; k < n_jobs(x->step); k++)
		if (x->fetches_after[k] == j)
			fetch(x, k);
}

static void leave(struct state *x, int j)
{
	for (int k = 0; k < n_jobs(x->step); k++)
		if (x->starts_after[k] == j)
			deliver(x, k);
}

static void make_updates_due(struct state *x, int s)
{
	int owners[ORACLE_WORKERS], k = owners_of(x->step, s, owners);

	for (int i = 0; i < k; i++)
		x->update_due[s][owners[i]] = true;
}

static void end_sum(struct state *x, int set)
{
	const struct oracle_step *t = x->step;

	for (int s = 0; s < t->n_stages; s++)
		if ((set < t->n_stages ? s == set : t->shares[set - t->n_stages][s]) &&
		    --x->sums[s] == 0)
			make_updates_due(x, s);
}

/* ---- how owners add up ---- */

/* What is sent at once, bytes * steps / parts from each to each. */
struct phase {
	int n, from[4 * ORACLE_WORKERS], to[4 * ORACLE_WORKERS], steps, parts;
	int64_t latency, least, most; /* of all steps; of an edge */
};

static void join(const struct oracle_step *t, struct phase *p, int v, int w)
{
	int64_t one = t->latency[v][w];

	p->from[p->n] = v;
	p->to[p->n] = w;
	p->least = !p->n || one < p->least ? one : p->least;
	p->most = one > p->most ? one : p->most;
	p->n++;
}

/* An odd number of some power of two is between two even ones, of which one is an odd number of
 * twice that; where that is too large it is the other. */
static int parent_of(int i, int k)
{
	int power = 1, up;

	while (i / power % 2 == 0)
		power *= 2;
	up = (i + power) / power / 2 % 2 ? i + power : i - power;
	return up < k ? up : i - power;
}

static struct phase trees(const struct oracle_step *t, const int *owners, int k)
{
	struct phase p = {.steps = 1, .parts = 2};
	int64_t longest = 0;

	for (int second = 0; second < 2; second++)
		for (int i = 1; i < k; i++) {
			int64_t way = 0;

			for (int at = i; at; at = parent_of(at, k)) {
				int up = parent_of(at, k);
				int v = owners[!second ? at : k % 2 ? (at + 1) % k : k - 1 - at];
				int w = owners[!second ? up : k % 2 ? (up + 1) % k : k - 1 - up];

				way += t->latency[v][w];
				if (at != i)
					continue;
				join(t, &p, v, w);
				join(t, &p, w, v);
			}
			longest = way > longest ? way : longest;
		}
	p.latency = 2 * longest;
	return p;
}

/* Workers that are together so far inside, if they are equally many everywhere. */
static int size_at(const struct oracle_step *t, const int *owners, int k, int depth)
{
	int size = 0;

	for (int i = 0; i < k; i++) {
		int n = 0;

		for (int j = 0; j < k; j++)
			n += i == j || t->depth[owners[i]][owners[j]] >= depth;
		if (size && n != size)
			return 1;
		size = n;
	}
	return size;
}

static int levels(const struct oracle_step *t, const int *owners, int k, struct phase *p)
{
	int sorted[ORACLE_WORKERS], n = 0, size = 1;

	for (int w = 0; w < t->n_workers; w++)
		for (int i = 0; i < k; i++)
			if (owners[i] == w)
				sorted[n++] = w;
	n = 0;
	for (int depth = ORACLE_WORKERS + 8; depth >= 0; depth--) {
		int all = size_at(t, sorted, k, depth);

		if (all <= size)
			continue;
		p[n] = (struct phase){.steps = all / size - 1, .parts = all};
		for (int i = 0; i < k; i++)
			join(t, &p[n], sorted[i], sorted[i / all * all + (i + size) % all]);
		p[n].latency = p[n].steps * p[n].most;
		size = all;
		n++;
	}
	for (int i = n - 2; i >= 0; i--) /* and back */
		p[2 * (n - 1) - i] = p[i];
	p[n - 1].steps *= 2;
	p[n - 1].latency *= 2;
	return 2 * n - 1;
}

#define PHASES 8

static int phases_of(const struct oracle_step *t, int set, int how, struct phase *p)
{
	int owners[ORACLE_WORKERS], k = holders_of(t, set, owners);

	if (how == 2)
		return levels(t, owners, k, p);
	p[0] = (struct phase){.steps = 2 * (k - 1), .parts = k};
	for (int i = 0; i < k; i++)
		join(t, &p[0], owners[i], owners[(i + 1) % k]);
	p[0].latency = p[0].steps * p[0].most;
	if (how && k > 2)
		p[0] = trees(t, owners, k);
	return 1;
}

/* How often a phase takes each link. */
static void hops_of(const struct oracle_step *t, const struct phase *p, int hops[ORACLE_LINKS])
{
	memset(hops, 0, ORACLE_LINKS * sizeof(*hops));
	for (int i = 0; i < p->n; i++)
		for (int l = 0; l < t->n_on_way[p->from[i]][p->to[i]]; l++)
			hops[t->way[p->from[i]][p->to[i]][l]]++;
}

/* If it has its links for itself. A ring goes on as soon as a step is over. */
static int64_t time_of(const struct oracle_step *t, int set, int how, int64_t bytes)
{
	struct phase p[PHASES];
	int64_t time = 0;

	for (int i = 0, n = phases_of(t, set, how, p); i < n; i++) {
		int64_t slowest = 0;
		int hops[ORACLE_LINKS];

		hops_of(t, &p[i], hops);
		for (int e = 0; e < p[i].n; e++) {
			int v = p[i].from[e], w = p[i].to[e];
			int64_t wait = how ? p[i].latency : p[i].steps * t->latency[v][w];

			slowest = wait > slowest ? wait : slowest;
			for (int a = 0; a < t->n_on_way[v][w]; a++) {
				int l = t->way[v][w][a];
				int64_t turns = (hops[l] + t->lanes[l] - 1) / t->lanes[l],
					end = wait + turns * t->link_ns_per_byte[l] *
							     (bytes / p[i].parts) * p[i].steps;

				slowest = end > slowest ? end : slowest;
			}
		}
		time += slowest;
	}
	return time;
}

static int fastest(const struct oracle_step *t, int set, int64_t bytes)
{
	int best = 0;

	for (int how = 1; how < 3; how++)
		if (time_of(t, set, how, bytes) < time_of(t, set, best, bytes))
			best = how;
	return best;
}

static void sum(struct state *x, int set)
{
	const struct oracle_step *t = x->step;
	int owners[ORACLE_WORKERS];

	if (!has_links(t) || !size_of(t, set) || holders_of(t, set, owners) < 2) {
		end_sum(x, set);
		return;
	}
	ask(x, RING, job(t, last_of(t, set), t->n_microbatches - 1, t->n_passes - 1), -1, -1, -1,
	    size_of(t, set));
	x->messages[x->n_messages - 1].s = set;
	x->messages[x->n_messages - 1].how =
		t->all_reduce < 3 ? t->all_reduce : fastest(t, set, size_of(t, set));
}

static void deliver_gradient(struct state *x, int j)
{
	const struct oracle_step *t = x->step;
	int s = stage_of(t, j);

	x->there[j] = true;
	if (--x->gradients[s])
		return;
	sum(x, s);
	for (int i = 0; i < t->n_sets; i++) {
		bool all = t->shares[i][s];

		for (int o = 0; o < t->n_stages; o++)
			all = all && (!t->shares[i][o] || !x->gradients[o]);
		if (all)
			sum(x, t->n_stages + i);
	}
}

/* From job j to the workers of k that are not in j: how many messages? */
static int send(struct state *x, enum what what, int j, int k, int64_t bytes)
{
	const struct oracle_step *t = x->step;
	int n = 0, o = stage_of(t, k);

	for (int i = 0; i < t->n_at[o]; i++) {
		int w = oracle_worker(t, k, i);

		if (is_on(t, j, w))
			continue;
		n++;
		if (what != ACTIVATION)
			ask(x, what, j, k, oracle_worker(t, j, i % t->n_at[stage_of(t, j)]), w,
			    bytes);
	}
	return n;
}

/* What stage o reads of stage s: outputs, and all else. */
static unsigned pieces_of(const struct oracle_step *t, int s, int o, int b)
{
	unsigned pieces = 0;
	int64_t rest = t->bytes[b][s][o];

	for (int u = 0; u < t->n_outputs; u++)
		if (t->maker[u] == s && t->reads[u][o]) {
			pieces |= 1u << u;
			rest -= t->output[b][u];
		}
	return rest || !pieces ? pieces | 1u << ORACLE_OUTPUTS : pieces;
}

static int64_t weigh(const struct oracle_step *t, int s, int o, int b, unsigned pieces)
{
	int64_t bytes = 0, rest = t->bytes[b][s][o];

	for (int u = 0; u < t->n_outputs; u++) {
		if (t->maker[u] != s || !t->reads[u][o])
			continue;
		rest -= t->output[b][u];
		bytes += pieces >> u & 1 ? t->output[b][u] : 0;
	}
	return bytes + (pieces >> ORACLE_OUTPUTS & 1 ? rest : 0);
}

/* The job for which F j sends stage o something at worker w; -1: none is there. */
static int reader_at(const struct oracle_step *t, int j, int o, int w)
{
	for (int b = 0; b < t->n_microbatches; b++)
		if (t->edge[stage_of(t, j)][o] && (b == microbatch_of(t, j) || t->gather[o]) &&
		    is_on(t, job(t, o, b, 0), w))
			return job(t, o, b, 0);
	return -1;
}

/* F j has ended: to worker w each piece with the reader of lowest n. visit is told what goes. */
static void send_to(const struct oracle_step *t, int j, int w, void *user,
		    void (*visit)(void *user, int j, int k, int w, unsigned pieces))
{
	unsigned sent = 0;
	bool done[ORACLE_STAGES] = {false};

	for (int turn = 0; turn < t->n_stages; turn++) {
		unsigned pieces;
		int best = -1;

		for (int o = 0; o < t->n_stages; o++) {
			int k = done[o] ? -1 : reader_at(t, j, o, w);

			if (k >= 0 && (best < 0 || t->n[k] < t->n[best]))
				best = k;
		}
		if (best < 0)
			return;
		done[stage_of(t, best)] = true;
		pieces = pieces_of(t, stage_of(t, j), stage_of(t, best), microbatch_of(t, j)) &
			 ~sent;
		sent |= pieces & ((1u << ORACLE_OUTPUTS) - 1);
		if (pieces)
			visit(user, j, best, w, pieces);
	}
}

static void ask_pieces(void *user, int j, int k, int w, unsigned pieces)
{
	struct state *x = user;
	const struct oracle_step *t = x->step;
	int s = stage_of(t, j), o = stage_of(t, k), i = 0;

	while (oracle_worker(t, k, i) != w)
		i++;
	ask(x, ACTIVATION, j, k, oracle_worker(t, j, i % t->n_at[s]), w,
	    weigh(t, s, o, microbatch_of(t, j), pieces));
	x->messages[x->n_messages - 1].pieces = pieces;
}

/* j has ended, and k waits for it. */
static void pass_on(struct state *x, int j, int k)
{
	const struct oracle_step *t = x->step;
	int s = stage_of(t, j), o = stage_of(t, k), d = j % t->n_passes, n = 0;

	if (has_links(t) && o == s && microbatch_of(t, k) == microbatch_of(t, j))
		n = send(x, STASH, j, k, share(t, s, t->stash[microbatch_of(t, j)][s]));
	else if (has_links(t) && o != s && d == 0)
		n = send(x, ACTIVATION, j, k, 0);
	else if (has_links(t) && o != s && t->gather[s] && x->unsummed[s][t->compute[j]] > 0)
		return;
	else if (has_links(t) && o != s)
		n = send(x, GRADIENT, j, k, t->gradient_bytes[microbatch_of(t, k)][o][s]);
	if (!n)
		deliver(x, k);
}

static void end_job(struct state *x, int j)
{
	const struct oracle_step *t = x->step;
	int s = stage_of(t, j), d = j % t->n_passes, before[ORACLE_JOBS];

	fetch_after(x, j);
	if (d == 1)
		x->unsummed[s][t->compute[j]]--;
	for (int k = 0; k < n_jobs(t); k++)
		for (int i = 0, n = oracle_before(t, k, before); i < n; i++)
			if (before[i] == j)
				pass_on(x, j, k);
	for (int w = 0; w < t->n_workers && has_links(t) && d == 0; w++)
		if (!is_on(t, j, w))
			send_to(t, j, w, x, ask_pieces);
	if (!has_updates(t) || !learns(t, j))
		return;
	if (has_links(t) && t->weights[j] != t->compute[j])
		x->made[j] = true;
	else
		deliver_gradient(x, j);
}

/* An owner adds gradients in the order of microbatches, and of those that come from others it has
 * two that are not yet added, no more: is there one less before j? */
static bool may_come(const struct state *x, int j)
{
	const struct oracle_step *t = x->step;
	int n_coming = 0;
	bool added = true;

	for (int k = 0; k < j; k++) {
		if (!oracle_has(t, k) || !learns(t, k) || stage_of(t, k) != stage_of(t, j) ||
		    t->weights[k] != t->weights[j])
			continue;
		added = added && x->there[k];
		n_coming += !added && fetches(t, k);
	}
	return n_coming < 2 || !fetches(t, j);
}

static bool send_gradients(struct state *x)
{
	const struct oracle_step *t = x->step;
	bool any = false;

	for (int j = 0; j < n_jobs(t); j++) {
		if (!x->made[j] || !may_come(x, j))
			continue;
		x->made[j] = false;
		any = true;
		ask(x, WEIGHT_GRADIENT, j, -1, t->compute[j], t->weights[j],
		    t->parameters[stage_of(t, j)]);
	}
	return any;
}

/* Outputs that have come are for all who read them at that worker, the rest for the stage. Where
 * all is there that a stage reads, its jobs there have it. */
static void arrive(struct state *x, const struct message *m)
{
	const struct oracle_step *t = x->step;
	int j = m->producer, w = m->to;

	if (m->what != ACTIVATION) {
		deliver(x, m->consumer);
		return;
	}
	for (int o = 0; o < t->n_stages; o++) {
		unsigned all, *came = &x->came[j][w][o], before = *came;

		if (!t->edge[stage_of(t, j)][o])
			continue;
		all = pieces_of(t, stage_of(t, j), o, microbatch_of(t, j));
		*came |= m->pieces & ((1u << ORACLE_OUTPUTS) - 1);
		if (o == stage_of(t, m->consumer))
			*came |= m->pieces;
		for (int b = 0;
		     b < t->n_microbatches && (before & all) != all && (*came & all) == all; b++)
			if ((b == microbatch_of(t, j) || t->gather[o]) &&
			    is_on(t, job(t, o, b, 0), w))
				deliver(x, job(t, o, b, 0));
	}
}

static bool is_under_way(const struct message *m)
{
	return m->arrival >= 0 && !m->left;
}

/* What is left of a phase of a sum. */
static void begin_phase(const struct oracle_step *t, struct message *m)
{
	struct phase p[PHASES];

	(void)phases_of(t, m->s, m->how, p);
	m->rest = (wide)m->bytes * 1000000000000000000 / p[m->phase].parts * p[m->phase].steps;
	m->rate = 0;
}

/* Is there another one, where links are shared? */
static bool next_phase(const struct oracle_step *t, struct message *m)
{
	struct phase p[PHASES];

	if (!t->fair || m->what != RING || m->phase + 1 == phases_of(t, m->s, m->how, p))
		return false;
	m->phase++;
	begin_phase(t, m);
	m->free = m->arrival = INT64_MAX;
	return true;
}

/* Does anything end now? */
static bool end_all(struct state *x)
{
	bool any = false;

	for (int w = 0; w < x->step->n_workers; w++)
		if (x->running[w] && x->until[w] == x->now) {
			x->running[w] = false;
			x->answer->worker[w].busy += x->now - x->began[w];
			if (x->runs[w] < 0 && x->now > x->last_update)
				x->last_update = x->now;
			any = true;
			for (int j = 0; j < n_jobs(x->step); j++)
				if (x->step->compute[j] == w && x->answer->end[j] == -2) {
					x->answer->end[j] = x->now;
					end_job(x, j);
				}
		}
	for (int i = 0; i < x->n_messages; i++) {
		struct message *m = &x->messages[i];

		if (is_under_way(m) && m->free == x->now && next_phase(x->step, m)) {
			any = true;
			continue;
		}
		if (m->arrival >= 0 && !m->left && m->free == x->now) {
			m->left = any = true;
			if (m->what == WEIGHT_GRADIENT)
				leave(x, m->producer);
		}
		if (m->arrival < 0 || m->arrived || m->arrival != x->now)
			continue;
		m->arrived = any = true;
		if (m->what == RING)
			end_sum(x, m->s);
		else if (m->consumer >= 0)
			arrive(x, m);
		else
			deliver_gradient(x, m->producer);
	}
	return send_gradients(x) || any;
}

static int next_job(const struct state *x, int w)
{
	const struct oracle_step *t = x->step;
	int best = -1;

	for (int j = 0; j < n_jobs(t); j++)
		if (oracle_has(t, j) && is_on(t, j, w) && x->answer->start[j] < 0 &&
		    (!t->greedy || !x->waits[j]) && (best < 0 || t->n[j] < t->n[best]))
			best = j;
	return best;
}

/* Is each of its workers free, with nothing else to do first? */
static bool has_all_workers(const struct state *x, int j)
{
	const struct oracle_step *t = x->step;

	for (int i = 0; i < t->n_at[stage_of(t, j)]; i++) {
		int v = oracle_worker(t, j, i);

		if (x->running[v] || next_job(x, v) != j)
			return false;
		for (int s = 0; s < t->n_stages; s++)
			if (x->update_due[s][v])
				return false;
	}
	return true;
}

static void run(struct state *x, int w, int j, int64_t length)
{
	x->running[w] = true;
	x->runs[w] = j;
	x->began[w] = x->now;
	x->todo[w] = (wide)length * 1000;
	x->pace[w] = 0;
	x->until[w] = INT64_MAX;
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
			run(x, w, -1, on_worker(t, w, t->update[s]));
			return true;
		}
	j = next_job(x, w);
	if (j < 0 || x->waits[j] || !has_all_workers(x, j))
		return false;
	x->answer->start[j] = x->now;
	x->answer->end[j] = -2;
	for (int i = 0; i < t->n_at[stage_of(t, j)]; i++)
		run(x, oracle_worker(t, j, i), j, length_of(t, j));
	return true;
}

/* How often m takes each link at once: now, or, phase -1, in that phase which does most. */
static void links_in(const struct oracle_step *t, const struct message *m, int phase,
		     int hops[ORACLE_LINKS])
{
	struct phase p[PHASES] = {{.n = 1, .from = {m->from}, .to = {m->to}}};
	int n = m->what == RING ? phases_of(t, m->s, m->how, p) : 1, one[ORACLE_LINKS];

	memset(hops, 0, ORACLE_LINKS * sizeof(*hops));
	for (int i = 0; i < n; i++) {
		hops_of(t, &p[i], one);
		for (int l = 0; l < t->n_links && (phase < 0 || phase == i); l++)
			hops[l] = one[l] > hops[l] ? one[l] : hops[l];
	}
}

static void links_of(const struct oracle_step *t, const struct message *m, int hops[ORACLE_LINKS])
{
	links_in(t, m, -1, hops);
}

static int least(int a, int b)
{
	return a < b ? a : b;
}

/* To which of the consumer's workers: the first one's goes first. */
static int number_to(const struct oracle_step *t, const struct message *m)
{
	int i = 0;

	while (m->consumer >= 0 && oracle_worker(t, m->consumer, i) != m->to)
		i++;
	return i;
}

/* Of those asked for at one instant for one job: what one producer sends by the number of the
 * receiver, and else the first that was asked for. */
static bool goes_before(const struct oracle_step *t, const struct message *a,
			const struct message *b)
{
	int ja = a->consumer < 0 ? a->producer : a->consumer,
	    jb = b->consumer < 0 ? b->producer : b->consumer;

	if (a->asked != b->asked)
		return a->asked < b->asked;
	if (a->n != b->n || ja != jb)
		return a->n != b->n ? a->n < b->n : ja < jb;
	if (a->producer == b->producer && number_to(t, a) != number_to(t, b))
		return number_to(t, a) < number_to(t, b);
	return a < b;
}

/* Are there lanes for it, and does none that was asked for before wait for one of these links? */
static bool has_lanes(const struct state *x, const struct message *m)
{
	const struct oracle_step *t = x->step;
	int hops[ORACLE_LINKS], others[ORACLE_LINKS], taken[ORACLE_LINKS] = {0};

	links_of(t, m, hops);
	for (int i = 0; i < x->n_messages; i++) {
		const struct message *o = &x->messages[i];
		bool waits = t->in_order && o->arrival < 0 && o != m && goes_before(t, o, m);

		if (!waits && !is_under_way(o))
			continue;
		if (t->fair && m->what != RING && o->what != RING && m->from == o->from &&
		    m->to == o->to)
			return false;
		links_of(t, o, others);
		for (int l = 0; l < t->n_links; l++) {
			if (waits && hops[l] && others[l])
				return false;
			taken[l] += waits ? 0 : least(others[l], t->lanes[l]);
		}
	}
	for (int l = 0; l < t->n_links; l++)
		if ((!t->fair || t->stream_of[l]) &&
		    taken[l] + least(hops[l], t->lanes[l]) > t->lanes[l])
			return false;
	return true;
}

static void start_message(struct state *x, struct message *m)
{
	const struct oracle_step *t = x->step;
	struct phase p[PHASES];
	int n;

	m->start = x->now;
	m->rest = (wide)m->bytes * 1000000000000000000;
	if (m->what != RING) {
		m->free = x->now + wire(t, m->from, m->to, m->bytes);
		m->arrival = m->free + t->latency[m->from][m->to];
		return;
	}
	n = phases_of(t, m->s, m->how, p);
	begin_phase(t, m);
	m->arrival = x->now + time_of(t, m->s, m->how, m->bytes);
	m->free = m->arrival - p[n - 1].least;
}

/* All that wait, in order, for lanes that are free when it is their turn. */
static bool start_messages(struct state *x)
{
	static bool tried[ORACLE_MESSAGES];
	bool any = false;

	memset(tried, 0, sizeof(tried));
	for (;;) {
		struct message *first = NULL;

		for (int i = 0; i < x->n_messages; i++) {
			struct message *m = &x->messages[i];

			if (m->arrival < 0 && !tried[i] &&
			    (!first || goes_before(x->step, m, first)))
				first = m;
		}
		if (!first)
			return any;
		tried[first - x->messages] = true;
		if (has_lanes(x, first)) {
			start_message(x, first);
			any = true;
		}
	}
}

/* ---- links that are shared ---- */

/* What is left of a link, for each of those on it that have no rate yet; -1: there are none. */
static wide share_of(const struct state *x, int l)
{
	const struct oracle_step *t = x->step;
	wide left;
	int n = 0, hops[ORACLE_LINKS];

	if (!t->link_ns_per_byte[l])
		return -1;
	/* what the machine was given, as a fraction of 2^60, rounded */
	left = (wide)ldexp(1e9 / (double)t->link_ns_per_byte[l], 60) * 1000000000 * t->lanes[l];
	left = (left + ((wide)1 << 59)) >> 60;
	for (int i = 0; i < x->n_messages; i++) {
		const struct message *m = &x->messages[i];

		if (!is_under_way(m))
			continue;
		links_in(t, m, m->phase, hops);
		n += m->rate < 0 ? hops[l] : 0;
		left -= m->rate < 0 ? 0 : hops[l] * m->rate;
	}
	return n ? left / n : -1;
}

/* The links on which those that are not limited elsewhere get least limit these. */
static bool limit_some(struct state *x)
{
	const struct oracle_step *t = x->step;
	wide share[ORACLE_LINKS], lowest = -1;
	int hops[ORACLE_LINKS];

	for (int l = 0; l < t->n_links; l++) {
		share[l] = share_of(x, l);
		if (share[l] >= 0 && (lowest < 0 || share[l] < lowest))
			lowest = share[l];
	}
	for (int i = 0; i < x->n_messages && lowest >= 0; i++) {
		struct message *m = &x->messages[i];

		if (!is_under_way(m) || m->rate >= 0)
			continue;
		links_in(t, m, m->phase, hops);
		for (int l = 0; l < t->n_links; l++)
			if (hops[l] && share[l] == lowest)
				m->rate = lowest;
	}
	return lowest >= 0;
}

/* Latencies come after the last byte: of a ring, one a step. */
static void share_links(struct state *x)
{
	const struct oracle_step *t = x->step;

	for (int i = 0; i < x->n_messages; i++) {
		struct message *m = &x->messages[i];

		if (!is_under_way(m))
			continue;
		if (m->start < x->now)
			m->rest -= (wide)m->rate * (x->now - x->shared_since);
		m->rate = -1;
	}
	x->shared_since = x->now;
	while (limit_some(x))
		;
	for (int i = 0; i < x->n_messages; i++) {
		struct message *m = &x->messages[i];
		struct phase p[PHASES] = {
			{.latency = m->what == RING ? 0 : t->latency[m->from][m->to]}};
		int n = m->what == RING ? phases_of(t, m->s, m->how, p) : 1;

		if (!is_under_way(m))
			continue;
		m->free = x->now +
			  (m->rate < 0 ? 0 : (int64_t)((2 * m->rest + m->rate) / 2 / m->rate));
		m->rate = m->rate < 0 ? 0 : m->rate;
		m->arrival = m->free;
		for (int v = 0; v < n; v++)
			m->arrival += p[v].latency;
	}
}

/* ---- compute beside transfers ---- */

static bool is_slow(const struct state *x, int w)
{
	int hops[ORACLE_LINKS];

	for (int i = 0; i < x->n_messages; i++) {
		if (!is_under_way(&x->messages[i]))
			continue;
		links_of(x->step, &x->messages[i], hops);
		for (int l = 0; l < x->step->n_links; l++)
			if (hops[l] && x->step->stream_of[l] == 1 + w)
				return true;
	}
	return false;
}

/* A job is as slow as the slowest of its workers. */
static void pace_all(struct state *x)
{
	for (int w = 0; w < x->step->n_workers; w++) {
		bool slow = is_slow(x, w);
		int j = x->runs[w];

		if (!x->running[w])
			continue;
		for (int i = 0; j >= 0 && i < x->step->n_at[stage_of(x->step, j)]; i++)
			slow = slow || is_slow(x, oracle_worker(x->step, j, i));
		x->todo[w] -= (wide)x->pace[w] * (x->now - x->paced_since);
		x->pace[w] = slow ? 1000 - x->step->slowdown : 1000;
		x->until[w] = x->now + (int64_t)((x->todo[w] + x->pace[w] - 1) / x->pace[w]);
	}
	x->paced_since = x->now;
}

static bool start_all(struct state *x)
{
	bool any = false;

	for (int w = 0; w < x->step->n_workers; w++)
		any = start_worker(x, w) || any;
	any = start_messages(x) || any;
	if (x->step->fair)
		share_links(x);
	pace_all(x);
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

		if (oracle_has(t, j) && (d > 0 || next >= 0) && is_on(t, j, w) &&
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
					bytes += held * share(t, s, t->stash[b][s]);
				}
			if (count > x->answer->worker[w].peak_stash)
				x->answer->worker[w].peak_stash = count;
			if (bytes > x->answer->worker[w].peak_stash_bytes)
				x->answer->worker[w].peak_stash_bytes = bytes;
		}
}

/* What worker w, one of those of job j, gets from `from`; seen: what it has got before. */
static void count_edge(struct state *x, int from, int j, int w,
		       bool seen[ORACLE_JOBS][ORACLE_WORKERS][ORACLE_STAGES])
{
	const struct oracle_step *t = x->step;
	struct oracle_worker *worker = &x->answer->worker[w];
	int s = stage_of(t, j), o = stage_of(t, from), b = microbatch_of(t, from);

	if (is_on(t, from, w) || (o == s && microbatch_of(t, from) != microbatch_of(t, j)))
		return;
	if (o == s) {
		worker->stashes += share(t, s, t->stash[b][s]);
	} else if (!t->edge[o][s]) {
		/* one sum from each worker that computes */
		if (!t->gather[o] || !seen[j][t->compute[from]][o])
			worker->gradients += t->gradient_bytes[microbatch_of(t, j)][s][o];
	}
}

static void count_pieces(void *user, int j, int k, int w, unsigned pieces)
{
	struct state *x = user;

	x->answer->worker[w].activations +=
		weigh(x->step, stage_of(x->step, j), stage_of(x->step, k),
		      microbatch_of(x->step, j), pieces);
}

/* By placement alone, whatever the links. */
static void count_bytes(struct state *x)
{
	const struct oracle_step *t = x->step;
	static bool seen[ORACLE_JOBS][ORACLE_WORKERS][ORACLE_STAGES];
	int before[ORACLE_JOBS], owners[ORACLE_WORKERS];

	memset(seen, 0, sizeof(seen));
	for (int j = 0; j < n_jobs(t); j++) {
		int s = stage_of(t, j);

		for (int w = 0; w < t->n_workers && j % t->n_passes == 0; w++)
			if (!is_on(t, j, w))
				send_to(t, j, w, x, count_pieces);
		for (int i = 0, n = oracle_before(t, j, before); i < n; i++) {
			for (int k = 0; k < t->n_at[s]; k++)
				count_edge(x, before[i], j, oracle_worker(t, j, k), seen);
			if (j % t->n_passes)
				seen[j][t->compute[before[i]]][stage_of(t, before[i])] = true;
		}
		if (!oracle_has(t, j) || t->weights[j] == t->compute[j])
			continue;
		x->answer->worker[t->compute[j]].fetched += t->parameters[s];
		if (learns(t, j))
			x->answer->worker[t->compute[j]].weight_gradients += t->parameters[s];
	}
	for (int set = 0; set < t->n_stages + t->n_sets; set++)
		for (int i = 0, k = holders_of(t, set, owners); i < k; i++) {
			for (int at = 0, n = set < t->n_stages ? t->n_at[set] : 1; at < n; at++) {
				int w = set < t->n_stages && t->has_set[set]
						? t->set[set][at]
						: (owners[i] + at) % t->n_workers;

				x->answer->worker[w].owned += (size_of(t, set) + n - 1) / n;
			}
			x->answer->worker[owners[i]].reduced +=
				t->frozen[last_of(t, set)] ? 0
							   : 2 * (k - 1) * (size_of(t, set) / k);
		}
}

/* From each job before it its end, or what it sends; sums of gradients once for each sender. */
static int count_waits(const struct oracle_step *t, int j)
{
	int before[ORACLE_JOBS], n = oracle_before(t, j, before), s = stage_of(t, j), sum = 0;
	bool summed[ORACLE_STAGES][ORACLE_WORKERS] = {{false}};

	for (int i = 0; i < n; i++) {
		int o = stage_of(t, before[i]), v = t->compute[before[i]], away = 0;

		if (has_links(t) && o != s && before[i] % t->n_passes && t->gather[o]) {
			if (summed[o][v])
				continue;
			summed[o][v] = true;
		}
		for (int k = 0; k < t->n_at[s]; k++)
			away += has_links(t) && !is_on(t, before[i], oracle_worker(t, j, k)) &&
				(o != s || microbatch_of(t, before[i]) == microbatch_of(t, j));
		sum += away ? away : 1;
	}
	return sum;
}

/* The n-th before place i of those that fetch, or of those that have taken a place, for jobs of its
 * worker. */
static int nth_before(const struct oracle_step *t, int i, int n, const bool *takes)
{
	int w = t->compute[t->order[i]];

	while (--i >= 0)
		if (t->compute[t->order[i]] == w && takes[t->order[i]] && !n--)
			return t->order[i];
	return -1;
}

/* Is the gradient of the job at place i, or of a later one, added before that of job j? */
static bool needs_one_from(const struct oracle_step *t, int j, int i)
{
	for (; i < n_jobs(t); i++) {
		int k = t->order[i];

		if (k <= j && oracle_has(t, k) && learns(t, k) &&
		    stage_of(t, k) == stage_of(t, j) && t->weights[k] == t->weights[j])
			return true;
	}
	return false;
}

/* A worker has places for the parameters of `ahead` jobs and one more, and for as many gradients.
 * A gradient that would have to leave before one of those that it waits for itself needs none. */
static void take_places(struct state *x)
{
	const struct oracle_step *t = x->step;
	bool reads[ORACLE_JOBS] = {false}, sends[ORACLE_JOBS] = {false};

	for (int i = 0; i < n_jobs(t); i++) {
		int j = t->order[i], before;

		x->fetches_after[j] = x->starts_after[j] = -1;
		if (!fetches(t, j))
			continue;
		reads[j] = true;
		x->fetches_after[j] = nth_before(t, i, t->ahead, reads);
		x->waits[j]++;
		if (x->fetches_after[j] < 0)
			fetch(x, j);
		before = learns(t, j) ? nth_before(t, i, t->ahead, sends) : -1;
		if (!learns(t, j) || (before >= 0 && needs_one_from(t, before, i)))
			continue;
		sends[j] = true;
		x->starts_after[j] = before;
		x->waits[j] += before >= 0;
	}
}

static void begin(struct state *x)
{
	const struct oracle_step *t = x->step;

	for (int j = 0; j < n_jobs(t); j++) {
		x->answer->start[j] = x->answer->end[j] = -1;
		x->waits[j] = count_waits(t, j);
		if (oracle_has(t, j) && j % t->n_passes == 1)
			x->unsummed[stage_of(t, j)][t->compute[j]]++;
	}
	take_places(x);
	for (int s = 0; s < t->n_stages; s++) {
		x->gradients[s] = t->n_microbatches;
		x->sums[s] = 1;
		for (int i = 0; i < t->n_sets; i++)
			x->sums[s] += t->shares[i][s];
	}
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
	answer->n_moves = x->n_messages;
	for (int i = 0; i < x->n_messages; i++)
		answer->moves[i] =
			(struct oracle_move){x->messages[i].from, x->messages[i].to,
					     x->messages[i].start, x->messages[i].arrival};
	find_peaks(x);
	count_bytes(x);
}
