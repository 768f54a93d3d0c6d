#!/bin/sh
# Streams as a person meets them. They learn; their losses are drawn beside those of a schedule that flushes; and where
# they are killed they go on from a checkpoint, to the parameters of a stream that nothing disturbed, to the bit: with
# weight stashing, vertical sync and replicas, in one process, and under mpirun where there is one.
# Usage: test_stream.sh ORRERY SOURCE [KILLS]
orrery=$(realpath "$1") source=$(realpath "$2") kills=${3:-3}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
passed=0 failed=0

fail() { failed=$((failed + 1)); printf 'FAILED: %s\n' "$*"; }

cp "$source/graphs/data/digits.csv" images.csv || exit 1
cat >model.dot <<END
digraph {
	data="images.csv"
	x [op=input columns="0:64" scale=0.0625]
	a [op=linear features=24]
	b [op=relu]
	c [op=linear features=24]
	d [op=gelu]
	norm [op=layernorm]
	scores [op=linear features=10]
	digit [op=input columns="64"]
	loss [op=softmax_cross_entropy]
	x -> a -> b -> c -> d -> norm -> scores -> loss
	digit -> loss
}
END

# --- digits ---
cd "$source" || exit 1
if "$orrery" train graphs/digits.dot --schedule pipedream -w 6 -m 8 --batch 128 --steps 800 --json >"$work/digits.json" \
	2>"$work/err" && grep '"accuracy"' "$work/digits.json" | tr -dc '0-9.' | awk '{ exit !($1 >= 0.95) }'; then
	passed=$((passed + 1))
else
	fail "digits: $(grep '"accuracy"' "$work/digits.json") $(cat "$work/err")"
fi
if ORRERY=$orrery STEPS=20 tools/loss-curves "$work/losses.svg" 2>"$work/err" &&
	[ "$(grep -cE '>(1f1b|stashing|vertical|none): [0-9.]+<' "$work/losses.svg")" -eq 4 ]; then
	passed=$((passed + 1))
else
	fail "loss curves: $(cat "$work/err")"
fi
cd "$work" || exit 1

# options STREAM: 12 updates from one checkpoint to the next are no whole rounds
options() {
	printf '%s' '--batch 48 -m 8 --steps 240 --every 12 --keep 2 '
	case $1 in
	stashing) echo --stages 3 -w 3 --schedule pipedream ;;
	vertical) echo --stages 3 -w 3 --schedule pipedream --sync vertical ;;
	replicas) echo --stages 2 -w 3 --schedule pipedream:replicas=2-1 ;;
	esac
}

# (train STREAM FOLDER [OPTION...]): takes the shell's place
train() {
	stream=$1 folder=$2
	shift 2
	# shellcheck disable=SC2046
	exec "$orrery" train model.dot $(options "$stream") --checkpoint "$folder" "$@"
}

# What it came to: the bits of the test loss, which every parameter is in.
loss() { grep '"loss"' "$1"; }
resume() { find "$1" -maxdepth 1 -name 'step-*' 2>/dev/null | grep -q . && echo --resume; }
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
echo "$n streams were killed twice each; $resumed had a checkpoint to go on from"

# --- several ranks: one is killed, and another number of them goes on ---
# Open MPI's modules leak
ranks() { count=$1; shift; ASAN_OPTIONS=detect_leaks=0 timeout 280 mpirun --oversubscribe -n "$count" "$@"; }
if command -v mpirun >/dev/null &&
	! ranks 2 "$orrery" train model.dot -w 2 --steps 1 2>&1 | grep -q 'was not found when it was configured'; then
	# shellcheck disable=SC2046
	ranks 3 "$orrery" train model.dot $(options replicas) --checkpoint "$work/ranks" >/dev/null 2>err &
	job=$!
	while [ -z "$(resume ranks)" ] && kill -0 "$job" 2>/dev/null; do sleep 0.05; done
	[ -n "$(resume ranks)" ] || fail "ranks: ended before its first checkpoint: $(cat err)"
	victim=$(pgrep -f "^$orrery train .*--checkpoint $work/ranks" | tail -n 1)
	[ -n "$victim" ] && kill -9 "$victim"
	wait "$job" && fail 'ranks: the one that was killed is not missed'
	[ -n "$(find ranks -name 'step-00000240')" ] && fail 'ranks: it had ended before'
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
else
	echo 'SKIP: no mpirun, or a build without MPI'
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
