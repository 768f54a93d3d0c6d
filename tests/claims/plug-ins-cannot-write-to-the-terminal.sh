# The message with which a plug-in refuses reaches a terminal as text: control characters and bytes that are no UTF-8 are \x1b.
cat >bad.c <<'END'
#include <stdio.h>
#include "orrery/schedule.h"

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	(void)p, (void)data;
	return orr_fail(err, ORR_E_INPUT, "%s",
	                "a\033[31mb\nc\177d\xff" "e\xc2\x9b" "f\xe2\x82" "g \xc3\xa9\xe2\x82\xac.");
}

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)b, (void)d, (void)data;
	return s % p->n_workers;
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)p, (void)data;
	return 4 * b + 2 * d + s;
}

static const struct orr_schedule bad = {.name = "bad", .check = check, .compute = compute, .priority = priority};
ORR_PLUGIN(bad);
END
cc -w -shared -fPIC -I"$source/src" -o bad.so bad.c
code=0
"$orrery" simulate chain:2 -m 2 --schedule ./bad.so >out 2>err || code=$?
[ $code -eq 2 ]
[ ! -s out ]
[ "$(wc -l <err)" -eq 1 ]
cat err
grep -qF 'a\x1b[31mb\x0ac\x7fd\xffe\xc2\x9bf\xe2\x82g é€.' err
"$orrery" compare chain:2 -m 2 --schedule ./bad.so >out 2>&1 || true
if LC_ALL=C grep -q "$(printf '[\033\377\177]')" out; then exit 1; fi
