# A plug-in that never answers, ends the process or crashes is told in one line, which names its function, within --timeout.
cat >bad.c <<'END'
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "orrery/schedule.h"

static volatile int depth;

static int deeper(int n)
{
	volatile char room[4096];

	room[n % 4096] = (char)n;
	depth++;
	return deeper(n + 1) + room[n % 4096];
}

enum { CHECK = 1, COMPUTE, WEIGHTS, PRIORITY, IN_FLIGHT, RECOMPUTE, PLACE, LOADING, UNLOADING };

static void at(int where)
{
	if (where != WHERE)
		return;
	switch (HOW) {
	case 1:
		for (;;)
			depth = 0;
	case 2:
		_exit(0);
	case 3:
		_Exit(0);
	case 4:
		exit(0);
	case 5:
		deeper(0);
		break;
	case 6:
		raise(SIGFPE);
		break;
	case 7:
		quick_exit(0);
	case 8: /* the second time only */
		for (int there = !access("was-here", F_OK); there;)
			depth = 0;
		close(creat("was-here", 0666));
	}
}

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	(void)p, (void)data, (void)err;
	at(CHECK);
	return 0;
}

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)b, (void)d, (void)data;
	at(COMPUTE);
	return s % p->n_workers;
}

static int weights(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	at(WEIGHTS);
	return compute(p, s, b, d, data);
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)data;
	at(PRIORITY);
	return ((int64_t)b * 2 + d) * 2 * p->n_stages + (d == ORR_PASS_F ? s : p->n_stages - 1 - s);
}

static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	(void)p, (void)s, (void)data;
	at(IN_FLIGHT);
	return 0;
}

static bool recompute(const struct orr_pipeline *p, int s, const void *data)
{
	(void)p, (void)s, (void)data;
	at(RECOMPUTE);
	return false;
}

static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out, struct orr_error *err)
{
	(void)p, (void)data, (void)out, (void)err;
	at(PLACE);
	return 0;
}

__attribute__((constructor)) static void loading(void)
{
	at(LOADING);
}

__attribute__((destructor)) static void unloading(void)
{
	at(UNLOADING);
}

static const struct orr_schedule bad = {
	.name = "bad",
	.check = check,
	.compute = compute,
	.weights = weights,
	.priority = priority,
	.in_flight = in_flight,
	.recompute = recompute,
	.place = WHERE == PLACE ? place : NULL,
};
ORR_PLUGIN(bad);
END

ulimit -c 0
# meet WHERE HOW TEXT COMMAND...: exit code 2, nothing on standard output, one line, and it has the text
meet() {
	where=$1 how=$2 text=$3
	shift 3
	cc -w -shared -fPIC -O0 -I"$source/src" -DWHERE="$where" -DHOW="$how" -o bad.so bad.c
	code=0
	timeout 30 "$orrery" "$@" --schedule ./bad.so >out 2>err || code=$?
	[ $code -eq 2 ] || { echo "$*, $text: exit code $code: $(cat err)"; exit 1; }
	[ ! -s out ]
	[ "$(wc -l <err)" -eq 1 ]
	grep -qF "$text" err || { echo "$text: $(cat err)"; exit 1; }
}

cc -shared -fPIC -w -I"$source/src" -DWHERE=0 -DHOW=0 -o bad.so bad.c
"$orrery" simulate chain:2 -m 2 --timeout 5 --schedule ./bad.so >out # the same plug-in, where it answers
where=0
for function in check compute weights priority in_flight recompute place; do
	where=$((where + 1))
	meet $where 1 "the plug-in ./bad.so has not answered for 0.2 s in $function()" \
		simulate chain:2 -m 2 --timeout 0.2
	meet $where 2 "the plug-in ./bad.so ended the process in $function()" simulate chain:2 -m 2
done
meet 8 1 'has not answered for 0.2 s while it was loaded' simulate chain:2 --timeout 0.2
meet 2 3 'ended the process in compute()' compare chain:2 -m 2
meet 2 7 'ended the process in compute()' simulate chain:2 -m 2
meet 4 4 'ended the process in priority()' compare chain:2 -m 2
meet 4 1 'has not answered for 0.2 s in priority()' compare chain:2 -m 2 --timeout 0.2
meet 4 5 'the plug-in ./bad.so crashed in priority()' simulate chain:2 -m 2
meet 1 6 'the plug-in ./bad.so crashed in check()' simulate chain:2 -m 2

meet 9 1 'has not answered for 0.2 s while it was unloaded' compare chain:2 --timeout 0.2
# What a child has seen of a destructor is not run again.
cc -w -shared -fPIC -O0 -I"$source/src" -DWHERE=9 -DHOW=8 -o bad.so bad.c
timeout 30 "$orrery" simulate chain:2 -m 2 --schedule ./bad.so >out
[ -e was-here ] && grep -q '^makespan' out
# Nor is one that lies deeper than a line of the report is long taken on trust.
deep=$(printf 'd%.0s' $(seq 240))/$(printf 'e%.0s' $(seq 240))
mkdir -p "$deep"
cc -w -shared -fPIC -O0 -I"$source/src" -DWHERE=2 -DHOW=2 -o "$deep/bad.so" bad.c
code=0
"$orrery" simulate chain:2 -m 2 --schedule "./$deep/bad.so" >out 2>err || code=$?
[ $code -eq 2 ] && grep -qF 'ended the process in compute()' err || { cat err; exit 1; }
needs_training
meet 5 1 'has not answered for 0.2 s in in_flight()' train "$source/graphs/digits.dot" \
	--timeout 0.2

# A crash of the command is not called the plug-in's.
cc -w -shared -fPIC -O0 -I"$source/src" -DWHERE=0 -DHOW=0 -o bad.so bad.c
"$orrery" train "$source/graphs/digits.dot" --schedule ./bad.so --steps 1000000 --checkpoint c --every 10 >out 2>err &
crashing=$!
until ls c/step-* >steps 2>/dev/null; do # the first ones go as others come
	kill -0 $crashing || { cat err; exit 1; }
	sleep 0.1
done
kill -SEGV $crashing
code=0
wait $crashing || code=$?
[ $code -eq 139 ] || { echo "exit code $code: $(cat err)"; exit 1; }
if grep -q 'plug-in' err; then cat err; exit 1; fi

# also on several ranks, where Open MPI would have words of its own
if [ "$can_train" = yes ] && command -v mpirun >/dev/null && "$orrery" --version | grep -q ', MPI'; then
	cc -w -shared -fPIC -O0 -I"$source/src" -DWHERE=2 -DHOW=6 -o bad.so bad.c
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=$PWD
	code=0
	timeout 60 mpirun --oversubscribe -n 2 "$orrery" train "$source/graphs/digits.dot" --steps 1 --schedule ./bad.so \
		>out 2>err || code=$?
	[ $code -ne 0 ]
	grep -qF 'the plug-in ./bad.so crashed in compute()' err || { cat err; exit 1; }
	cc -w -shared -fPIC -O0 -I"$source/src" -DWHERE=2 -DHOW=1 -o bad.so bad.c
	code=0
	timeout 60 mpirun --oversubscribe -n 2 "$orrery" train "$source/graphs/digits.dot" --steps 1 --timeout 0.5 \
		--schedule ./bad.so >out 2>err || code=$?
	[ $code -eq 2 ] || { echo "a loop on two ranks: exit code $code"; cat err; exit 1; }
fi
