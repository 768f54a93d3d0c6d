#include "shares.h"

#include "orrery/machine.h"
#include "base/max.h"
#include "pipeline/path.h"

struct orr_sharing orr_sharing_of(const struct orr_machine *machine, const int *workers,
				  struct orr_link_cost *links)
{
	return (struct orr_sharing){
		.machine = machine, .workers = workers, .free_update_s = -1, .links = links};
}

/* Is a ring over a's like never faster than one over b's? */
static bool is_slower(struct orr_link_cost a, struct orr_link_cost b)
{
	bool narrower = b.bytes_per_s <= 0 || (a.bytes_per_s > 0 && a.bytes_per_s <= b.bytes_per_s);

	return narrower && a.latency_ns >= b.latency_ns;
}

static void add_link(struct orr_sharing *gang, struct orr_link_cost link)
{
	int n = 0;

	for (int i = 0; i < gang->n_links; i++)
		if (is_slower(gang->links[i], link))
			return;
	for (int i = 0; i < gang->n_links; i++)
		if (!is_slower(link, gang->links[i]))
			gang->links[n++] = gang->links[i];
	gang->links[n++] = link;
	gang->n_links = n;
}

void orr_sharing_join(struct orr_sharing *gang, const struct orr_share *share, bool ring)
{
	const struct orr_machine *m = gang->machine;
	int w = gang->workers[gang->n++];
	int64_t memory_bytes = orr_machine_memory(m, w);
	double speed = orr_machine_speed(m, w);
	double each = share->start_s + (share->work_s - share->start_s) / speed;
	double update = share->update_start_s + (share->update_s - share->update_start_s) / speed;

	if (memory_bytes && (!gang->memory_bytes || memory_bytes < gang->memory_bytes))
		gang->memory_bytes = memory_bytes;
	if (ring && gang->n > 1)
		add_link(gang, orr_machine_link(m, gang->workers[gang->n - 2], w));
	if (gang->free_update_s >= 0)
		return;
	if (each <= 0) {
		gang->free_update_s = update;
		return;
	}
	gang->rate += 1 / each;
	gang->updates += update / each;
}

/* Rates add up; m microbatches and their updates are shared so that all end at once. */
double orr_sharing_each_s(const struct orr_sharing *gang, const struct orr_share *share, int parts)
{
	if (gang->free_update_s >= 0)
		return gang->free_update_s / parts / share->n_microbatches;
	return 1 / gang->rate + gang->updates / parts / gang->rate / share->n_microbatches;
}

int64_t orr_sharing_ring_ns(const struct orr_sharing *gang, int k, int64_t bytes)
{
	int turns = k == 2 && orr_machine_half_duplex(gang->machine) ? 2 : 1;
	struct orr_link_cost last;
	int64_t longest;

	if (k < 2)
		return 0;
	last = orr_machine_link(gang->machine, gang->workers[k - 1], gang->workers[0]);
	longest = orr_ring_over_ns(&last, k, bytes, turns);
	for (int i = 0; i < gang->n_links; i++)
		longest = larger(longest, orr_ring_over_ns(&gang->links[i], k, bytes, turns));
	return longest;
}
