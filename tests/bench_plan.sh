#!/bin/sh
# From profile through plan to train: the step that the plan predicts, the one that the stages' own times predict, and
# the one measured, for two workers, each stage on one. So often in turn, and the median of their quotients.
# Usage: bench_plan.sh ORRERY SOURCE [ROUNDS]; a machine that does something else shows in the measured step first
orrery=$(realpath "$1") source=$(realpath "$2") rounds=${3:-3}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# value KEY FILE: of a top-level key
value() { sed -n "s/^  \"$1\": \([0-9.e-]*\),*\$/\1/p" "$2"; }

# round GRAPH BATCH STEPS
round() {
	"$orrery" profile "$source/graphs/$1.dot" --workers 2 --batch "$2" -m 8 -o profile.dot >profile.txt 2>/dev/null &&
	"$orrery" plan profile.dot --workers 2 --straight --makespan --unpin --batch "$2" -m 8 --json -o plan.json >plan.txt &&
	"$orrery" train plan.json --data "$source/graphs/data/digits.csv" --steps "$3" --json >train.json 2>/dev/null || exit 1
	awk -v name="$1" -v plan="$(value makespan plan.txt)" -v predicted="$(value predicted_makespan train.json)" \
	    -v measured="$(value makespan train.json)" 'BEGIN {
		printf "%-12s plan %.3f ms, from stages %.3f ms, measured %.3f ms: measured / plan %.2f, measured / stages %.2f\n",
			name, 1e3 * plan, 1e3 * predicted, 1e3 * measured, measured / plan, measured / predicted }'
}

for bench in 'digits 1024 200' 'wide_towers 256 10'; do
	# shellcheck disable=SC2086
	for i in $(seq "$rounds"); do round $bench; done | tee rounds.txt
	sed 's/.*plan \([0-9.]*\),.*/\1/' rounds.txt | sort -n |
		awk -v name="${bench%% *}" '{ x[NR] = $1 } END { printf "%-12s measured / plan: median %.2f\n", name, x[int((NR + 1) / 2)] }'
done
