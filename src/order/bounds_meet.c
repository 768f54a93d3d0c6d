/* Microbatches that take turns in the memory of a stage: how long each is on its way down from
 * there and back, what they wait as they pass each other, and what the first and the last of
 * them wait at the far end.
 *
 * Stages 0 to n - 1 of the way take all microbatches by number. L is the sum of all F, B and
 * transfers of the way. Stage 0 holds c at most, so that F of i + c follows W of i there.
 *
 * 1. Meetings. Let i < j < i + c. Where F of j comes before B of i on a stage of the way, so it
 * does on all stages before that one. Hence there is an x so that F of j comes first on stages
 * 0 to x - 1, and B of i on the others: they meet between x - 1 and x.
 * The phase of a microbatch is the time less what its way took so far, waits left out: first
 * its start S, and then it grows by what it waits. P(i,j) is that of i, P(j,i) that of j, as
 * they meet. With a the phase of j as its F ends on x - 1, and b that of i as its B ends on x:
 * - 0 < x < n: D are all F and B of the stages from x on, and the transfers between these, d
 *   both transfers between x - 1 and x. P(j,i) = max(a, b + D), P(i,j) = max(b, a - D - d), no
 *   more than they are after F on x and B on x - 1 have waited for each other. So
 *   D <= P(j,i) - P(i,j) <= D + d.
 * - x = n: i has waited for j at the far end, P(j,i) = P(i,j) = a.
 * - x = 0: i has left. P(j,i) is S of j, and P(i,j) = P(j,i) - L, as if it waited outside.
 * A microbatch meets the older ones in turn on its way down, then the younger ones in turn, and
 * P never decreases from one to the next: it grows by waits, each at one place in this row.
 *
 * 2. Chains. Let P(i+c,i+1) = P(i,i+c-1) + L + W + e'. Then e' >= 0 where i has not left before
 * i + c - 1 comes, as then it is made of waits; else e' >= F - W, as F of i + c comes F after
 * that of i + c - 1. Add this up over all i of the first m microbatches but the last c, and cancel:
 * c times the makespan is at least what the first c start at, (m - c) (L + W) + c L, what is
 * left after the last B of each of the last c, all growths of P and all e', each once.
 *
 * 3. The far end. Let F and B be those of stage n - 1. Of two of the first u microbatches, i < j:
 * either B of i lies between F of i and F of j there, so that F of j comes B later; or F of j
 * lies between F and B of i, so that i waits F before it can meet any after j. So starts and
 * growths of each of the u until it meets the last of them (of this one, until its F ends
 * there) are together u times the first one's, and F + min(F, B) for each pair. With time turned
 * round it is the same for the last v, and B for F: growths since each has met the first of
 * them (of this one, since its F has ended there). With u + v <= m nothing is counted twice.
 *
 * 4. Steps. Take any T > 0. Let all that P(j,i) - P(i,j) can be lie in [low, high] but for
 * multiples of T, low <= 0 <= high, and slack be high - low. A step i has
 * - e = e' + max(0, W - F), which is no less than 0;
 * - d1 = P(i+c-1,i+1) - P(i+c-1,i), d2 = P(i+1,i+c) - P(i+1,i+c-1), but where c = 2
 *   d1 = P(i+1,i+2) - P(i+1,i), d2 = 0.
 * From P(i,i+c-1) one comes to P(i+c,i+1) by L + W + e', and also over to i + c - 1, by d1, over
 * to i + 1, by d2, and over to i + c. L is one of the differences itself (x = 0). So with
 * w = min(W, F) there is an integer q: d1 + d2 = w + e + q T, but for 2 slack.
 * If q >= 0, d1 + d2 >= w - 2 slack. Else e >= T - w - 2 slack. `one` is the smaller of these.
 *
 * 5. Steps in two rows, where c > 2. From P(i,i+c-2) one comes to P(i+1,i+c-1) by d2 of step
 * i - 1 and d1 of step i, or else by other growths, d' = P(i+c-2,i+1) - P(i+c-2,i) +
 * P(i+1,i+c-1) - P(i+1,i+c-2) (where c = 3 by P(i+1,i+2) - P(i+1,i)). So d1 + d2 is d', but
 * for a multiple of T and 2 slack. Let f have the period T: f(x) = x from 0 to T / 3, T - 2 x
 * from there to 2 T / 3, x - T from there to T. It is odd, and its slope is from -2 to 1: so
 * f(d1) + f(d2) = f(d1) - f(-d2) <= d' + 4 slack. With g(x) = x + f(x) >= 0 the steps have each
 * e + g(d1) + g(d2) - 4 slack at least. Take w as it is, slack included, and d1 >= d2, say.
 * - q < 0: e >= T - w.
 * - q = 0, e = d1 + d2 - w: up to d1 = T / 3 this is 3 (d1 + d2) - w >= 2 w; up to 2 T / 3 it is
 *   T - w + d2 + g(d2); up to T it is 3 d1 + d2 + g(d2) - T - w >= T - w; beyond, e >= T - w.
 * - q > 0, d1 + d2 >= T + w: if d2 >= T / 3, both g are T / 3 or more; else, up to d1 = T, they
 *   are 2 (d1 + d2) - T >= T + 2 w; beyond, g(d1) >= T.
 * As min(2 w, T - w) <= 2 T / 3, all are as much as this. It is `both`, less what slack can be of
 * it; where that is more than 0, w is, too.
 *
 * Of the m - c steps the first and the last, and for `both` two at each end, have growths that
 * 3. may count: these are left out. */
#include "bounds.h"
#include "base/max.h"

struct lengths {
	int64_t down, all, up; /* to the start of the last F, all, from the start of the last B */
};

static struct lengths measure(const struct orr_way *way)
{
	struct lengths of = {0, 0, 0};

	for (int x = 0; x < way->n; x++) {
		of.down += way->down_ns[x] + (x ? way->forward_ns[x - 1] : 0);
		of.up += way->up_ns[x] + way->backward_ns[x];
	}
	of.all = of.down + way->forward_ns[way->n - 1] + of.up;
	return of;
}

/* How far the differences at which two microbatches meet are from multiples of T. */
static int64_t find_slack(const struct orr_way *way, int64_t T)
{
	int64_t low = 0, high = 0, distance = 0;

	for (int x = way->n - 1; x >= 0; x--) {
		int64_t transfers = way->down_ns[x] + way->up_ns[x], rest;

		distance += way->forward_ns[x] + way->backward_ns[x];
		rest = distance % T;
		rest -= rest > T / 2 ? T : 0;
		low = smaller(low, rest);
		high = larger(high, rest + (x ? transfers : 0));
		distance += transfers;
	}
	return high - low;
}

/* What a step has at least, by T; by two rows, all of them together have 4 slack less. */
struct steps {
	int64_t one, both, slack;
};

static struct steps find_steps(const struct orr_way *way, int64_t T)
{
	int64_t slack = find_slack(way, T), w = smaller(way->weight_ns, way->forward_ns[0]) % T,
		beyond = larger(0, way->weight_ns - way->forward_ns[0]);
	int64_t one = smaller(w, T - w) - 2 * slack,
		both = smaller(2 * w - 8 * slack, T - w - 6 * slack);

	return (struct steps){larger(0, one - beyond), larger(0, both - beyond), slack};
}

static int64_t bound_steps(const struct orr_way *way, struct steps of, int64_t n_steps)
{
	int64_t one = larger(0, n_steps - 2) * of.one,
		both = larger(0, n_steps - 4) * of.both - 4 * of.slack;

	return way->n_at_once < 2 ? 0 : way->n_at_once < 3 ? one : larger(one, both);
}

/* Of the Ts that stages take the one that says most. */
static struct steps find_best_steps(const struct orr_way *way)
{
	int64_t n_steps = way->n_microbatches - way->n_at_once, before = 0;
	struct steps best = {0, 0, 0};

	for (int x = 0; x < way->n; x++) {
		int64_t T =
			way->forward_ns[x] + way->backward_ns[x] + way->down_ns[x] + way->up_ns[x];
		struct steps of = T > 0 && T != before ? find_steps(way, T) : best;

		if (bound_steps(way, of, n_steps) > bound_steps(way, best, n_steps))
			best = of;
		before = T;
	}
	return best;
}

/* n at the far end of the way, `each` apart, and what pairs of them wait. */
static int64_t bound_end(const struct orr_way *way, int64_t first, int64_t each, int64_t n)
{
	int x = way->n - 1;

	return n * first +
	       (each + smaller(way->forward_ns[x], way->backward_ns[x])) * (n * (n - 1) / 2);
}

/* c times the makespan, looking at the first n microbatches. */
static int64_t bound_chains(const struct orr_way *way, struct lengths of, struct steps steps,
			    int64_t n)
{
	const int64_t *start = way->start_ns, *left = way->left_ns, *rest = way->rest_ns;
	int64_t c = way->n_at_once, u = smaller(c, n / 2), v = smaller(c, n - u);
	int64_t head = larger(start[1], way->far_start_ns - of.down),
		tail = larger(left[n] - left[n - 1], way->far_left_ns[n - 1] - of.up);
	int64_t first = larger(start[u], bound_end(way, head, way->forward_ns[way->n - 1], u)) +
			start[c] - start[u];
	int64_t last = larger(left[n] - left[n - v],
			      bound_end(way, tail, way->backward_ns[way->n - 1], v)) +
		       left[n - v] - left[n - c];
	int64_t whole = (n < 2 * c ? start[c] : first) + rest[n] - rest[n - c],
		parts = first + c * of.all + last + bound_steps(way, steps, n - c);

	return (n - c) * (of.all + way->weight_ns) + larger(whole, parts);
}

int64_t orr_bounds_meet(const struct orr_way *way)
{
	struct lengths of = measure(way);
	struct steps steps = find_best_steps(way);
	int64_t most = 0;

	for (int64_t n = way->n_at_once; n <= way->n_microbatches; n++)
		most = larger(most, bound_chains(way, of, steps, n));
	return most / way->n_at_once;
}
