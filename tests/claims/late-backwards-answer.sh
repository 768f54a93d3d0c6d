# An asynchronous schedule whose backwards come a round later is simulated, however long its rounds are.
cat >late.c <<'END'
#include "orrery/schedule.h"

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)b, (void)d, (void)data;
	return s % p->n_workers;
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	int64_t n = p->n_stages, m = p->n_microbatches;

	(void)data;
	return d == ORR_PASS_F ? b * 4 * n + s : (b + m) * 4 * n + 4 * n - 1 - s;
}

static const struct orr_schedule late = {
	.name = "late", .asynchronous = true, .compute = compute, .priority = priority};
ORR_PLUGIN(late);
END
cc -shared -fPIC -I"$source/src" -o late.so late.c
# as long as nobody waits for it, however busy the machine is
for m in 1 4 20000; do
	timeout 20 "$orrery" simulate chain:1 -w 1 -m $m --schedule ./late.so >out
	grep -q "^s0 .* 1 .* $m  *$((m + 1)) " out # a microbatch an update, m updates behind, m + 1 versions
	grep -q '^steady  *2 units for 1 microbatch' out
done
