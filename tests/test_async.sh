#!/bin/sh
# Asynchronous trainings as a person meets them. They learn; --loss has a row per step; and killed ones resume from a
# checkpoint, to the parameters of an undisturbed training, bit for bit: with
# weight stashing, vertical sync and replicas. Usage: test_async.sh ORRERY SOURCE [KILLS]
orrery=$(realpath "$1") source=$(realpath "$2") kills=${3:-3}
. "$source/tests/async.sh"

# --- digits ---
cd "$source" || exit 1
if "$orrery" train graphs/digits.dot --schedule pipedream -w 6 -m 8 --batch 128 --steps 800 --json >"$work/digits.json" \
	2>"$work/err" && grep '"accuracy"' "$work/digits.json" | tr -dc '0-9.' | awk '{ exit !($1 >= 0.95) }'; then
	passed=$((passed + 1))
else
	fail "digits: $(grep '"accuracy"' "$work/digits.json") $(cat "$work/err")"
fi
for sync in stashing vertical none; do
	"$orrery" train graphs/deep.dot -w 8 -m 8 --batch 128 --steps 20 --schedule pipedream --sync "$sync" \
		--loss "$work/$sync.csv" >/dev/null 2>"$work/err" || fail "--sync $sync: $(cat "$work/err")"
	if [ "$(head -n 1 "$work/$sync.csv")" = step,samples,loss ] && [ "$(wc -l <"$work/$sync.csv")" -eq 21 ]; then
		passed=$((passed + 1))
	else
		fail "--loss, --sync $sync: $(cat "$work/$sync.csv")"
	fi
done
! cmp -s "$work/stashing.csv" "$work/none.csv" || fail '--sync none has the losses of --sync stashing'
cd "$work" || exit 1

drawn() { awk -v n="$1" -v ms="$2" 'BEGIN { srand(n); printf "%.3f", rand() * ms / 1000 }'; }

for stream in stashing vertical replicas; do
	started=$(date +%s%N)
	(train "$stream" "calm-$stream" --json) >"calm-$stream.json" 2>err || fail "$stream: $(cat err)"
	eval "lasted_$stream=$((($(date +%s%N) - started) / 1000000))"
done
[ "$(loss calm-stashing.json)" != "$(loss calm-vertical.json)" ] || fail 'vertical sync has changed nothing'

# --- refused ---
"$orrery" train model.dot --stages 3 -w 3 -m 2 --batch 48 --schedule pipedream --steps 2 >short 2>err
[ $? -eq 2 ] && grep -q ' 3 microbatches in flight, more than a round of -m 2: take -m 3 or more' err || fail "a short round: $(cat err)"

# --- one process ---
n=0 resumed=0
while [ "$n" -lt "$kills" ]; do
	case $((n % 3)) in 0) stream=stashing ;; 1) stream=vertical ;; *) stream=replicas ;; esac
	eval "ms=\$lasted_$stream"
	rm -rf killed
	for again in 1 2; do
		# shellcheck disable=SC2046 # no word where there is nothing to go on from
		(train "$stream" killed $(resume killed)) >/dev/null 2>err &
		pid=$!
		sleep "$(drawn "$n$again" "$ms")"
		kill -9 "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	n=$((n + 1))
	[ -z "$(resume killed)" ] || resumed=$((resumed + 1))
	# shellcheck disable=SC2046
	if ! (train "$stream" killed $(resume killed)) >/dev/null 2>err; then
		fail "kill $n, $stream: does not go on: $(cat err)"
	elif ! cmp -s killed/step-00000240/shard-0.safetensors "calm-$stream/step-00000240/shard-0.safetensors"; then
		fail "kill $n, $stream: the parameters differ"
	else
		passed=$((passed + 1))
	fi
done
echo "$n trainings were killed twice each; $resumed had a checkpoint to go on from"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
