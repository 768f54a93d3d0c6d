#!/bin/sh
# An asynchronous training across ranks: one rank is killed, and another number of ranks resumes from the checkpoint, to the loss of a
# training that nothing disturbed. Usage: test_async_ranks.sh ORRERY SOURCE. Exit code 77: there is no mpirun, or the
# build has no MPI.
orrery=$(realpath "$1") source=$(realpath "$2")
command -v mpirun >/dev/null || { echo 'SKIP: there is no mpirun' && exit 77; }
. "$source/tests/async.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=$work

# Open MPI's modules leak
ranks() { count=$1; shift; ASAN_OPTIONS=detect_leaks=0 timeout 280 mpirun --oversubscribe -n "$count" "$@"; }
ranks 2 "$orrery" train model.dot -w 2 --steps 1 2>&1 | grep -q 'was not found when it was configured' &&
	{ echo 'SKIP: the build has no MPI' && exit 77; }

# A rank is killed when the first checkpoint is there. Where all steps were faster than that, there are four times as many of them.
killed=false
while ! $killed && [ "$steps" -le 61440 ]; do
	rm -rf ranks
	# shellcheck disable=SC2046
	ranks 3 "$orrery" train model.dot $(options replicas) --checkpoint "$work/ranks" >/dev/null 2>err &
	job=$!
	while [ -z "$(resume ranks)" ] && kill -0 "$job" 2>/dev/null; do sleep 0.05; done
	[ -n "$(resume ranks)" ] || fail "ranks: ended before its first checkpoint: $(cat err)"
	victim=$(pgrep -f "^$orrery train .*--checkpoint $work/ranks" | tail -n 1)
	[ -n "$victim" ] && kill -9 "$victim"
	if wait "$job" || [ -d "ranks/step-$(printf %08d "$steps")" ]; then steps=$((steps * 4)); else killed=true; fi
done
$killed || fail 'ranks: none was killed in time'
(train replicas calm-replicas --json) >calm-replicas.json 2>err || fail "replicas: $(cat err)"
# shellcheck disable=SC2046
ranks 2 "$orrery" train model.dot $(options replicas) --checkpoint ranks --resume --json >ranks.json 2>err ||
	fail "ranks: does not go on: $(cat err)"
if [ "$(loss ranks.json)" = "$(loss calm-replicas.json)" ]; then
	passed=$((passed + 1))
else
	fail "ranks: $(loss ranks.json) instead of $(loss calm-replicas.json)"
fi
# drained before a round was whole: no timeline, and rank 0 alone says so
if ranks 2 "$orrery" train model.dot --stages 3 -w 3 -m 8 --batch 48 --schedule pipedream --steps 2 >short 2>err &&
	grep -q '^Trained to step 2\. No round of -m 8 ' short && grep -q '^Test loss' short; then
	passed=$((passed + 1))
else
	fail "ranks: less than a round: $(cat short err)"
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
