#!/bin/sh
# What a flush costs: time per microbatch of 1f1b and of pipedream, which does not flush, for m = P, 2P and 4P
# microbatches a step on P workers, an update for every m of them in both; simulated on this machine's own costs, and
# measured, the median of so many rounds.
# Usage: bench_async.sh ORRERY GRAPH [P [SAMPLES [ROUNDS]]]; SAMPLES of a microbatch. P cores to itself, or it measures
# who else is there.
orrery=$(realpath "$1") graph=$(realpath "$2") P=${3:-2} samples=${4:-64} rounds=${5:-3}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# value KEY FILE: of a top-level key
value() { sed -n "s/^  \"$1\": \([0-9.e-]*\),*\$/\1/p" "$2"; }
# simulated SCHEDULE: seconds for a microbatch
simulated() { tr -d ' \n' <compare.json | sed "s/.*{\"schedule\":\"$1\",[^}]*\"per_microbatch\":\([0-9.e-]*\).*/\1/"; }
# step SCHEDULE M: the options for an update of M microbatches; a round of pipedream is longer than what is in flight
step() {
	case $1 in
	pipedream) echo "--accumulate $2 --batch $((samples * 4 * P)) -m $((4 * P))" ;;
	*) echo "--batch $((samples * $2)) -m $2" ;;
	esac
}
# measured SCHEDULE M: likewise
measured() {
	: >times.txt
	for _ in $(seq "$rounds"); do
		# shellcheck disable=SC2046
		"$orrery" train plan.json --data "$data" --schedule "$1" $(step "$1" "$2") --steps $((512 / $2)) --json >train.json 2>err.txt || {
			cat err.txt >&2
			return 1
		}
		awk "BEGIN { print $samples / $(value samples_per_second train.json) }" >>times.txt
	done
	sort -g times.txt | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'
}

"$orrery" profile "$graph" --workers "$P" --batch $((samples * P)) -m "$P" -o profile.dot >/dev/null 2>err.txt &&
"$orrery" plan profile.dot --workers "$P" --straight --batch $((samples * P)) -m "$P" -o plan.json >plan.txt || {
	cat err.txt
	exit 1
}
data=$(sed -n 's/^	data="*\([^"]*\)"*;*$/\1/p' profile.dot) # of the graph, which lies elsewhere
sed -n '/^Slowest/p' plan.txt
printf '%-28s %-10s %14s %14s\n' "${graph##*/}, P = $P" schedule simulated measured
for m in "$P" $((2 * P)) $((4 * P)); do
	"$orrery" compare plan.json --accumulate "$m" --batch $((samples * m)) -m "$m" --json >compare.json || exit 1
	for schedule in 1f1b pipedream; do
		t=$(measured "$schedule" "$m") || exit 1
		awk -v m="$m" -v name="$schedule" -v s="$(simulated "$schedule")" -v t="$t" 'BEGIN {
			printf "m = %-24d %-10s %11.3f ms %11.3f ms\n", m, name, 1e3 * s, 1e3 * t }'
	done
done
