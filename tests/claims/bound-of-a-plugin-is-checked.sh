# A plug-in's lower bound above the makespan of its own order is refused, in one line, by every command that takes a plug-in.
cat >liar.c <<'C'
#include "orrery/schedule.h"
#ifndef BOUND
#define BOUND 1000 * ORR_UNIT_NS
#endif
static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out, struct orr_error *err)
{
	(void)data, (void)err;
	for (int i = 0; i < 2 * p->n_stages * p->n_microbatches; i++) {
		out->worker[i] = 0;
		out->n[i] = 2 * (i / 2 / p->n_stages) * p->n_stages +
		            (i % 2 ? 2 * p->n_stages - 1 - i / 2 % p->n_stages : i / 2 % p->n_stages);
	}
	out->bound_ns = BOUND;
	return 0;
}
static const struct orr_schedule liar = {.name = "liar", .summary = "", .order = ORR_ORDER_STRICT, .place = place};
ORR_PLUGIN(liar);
C
cc --version >/dev/null || { echo 'no C compiler'; exit 77; }
cc -shared -fPIC -I"$source/src" -o liar.so liar.c
cc -shared -fPIC -I"$source/src" -DBOUND=INT64_MAX -o most.so liar.c
cc -shared -fPIC -I"$source/src" -DBOUND=-1 -o less.so liar.c
cc -shared -fPIC -I"$source/src" -DBOUND="8 * ORR_UNIT_NS" -o honest.so liar.c

refused() {
	code=0
	"$@" >out 2>err || code=$?
	[ $code -eq 2 ]
	[ "$(wc -l <err)" -eq 1 ]
	grep -q 'schedule liar: .*lower bound' err
}
for module in liar most less; do
	refused "$orrery" simulate chain:2 --workers 1 -m 2 --schedule ./$module.so --json
done
"$orrery" compare chain:2 --workers 1 -m 2 --schedule ./liar.so | grep 'liar.*lower bound of 1000 units'
"$orrery" simulate chain:2 --workers 1 -m 2 --schedule ./honest.so | grep 'lower bound  8 units; reached'
needs_training
refused "$orrery" train "$source/graphs/digits.dot" --workers 2 -m 2 --steps 1 --schedule ./liar.so
