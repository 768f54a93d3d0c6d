#!/bin/sh
# Peak resident memory of a rank, fully sharded and data parallel, beside the prediction.
# Usage: test_memory.sh small|whole ORRERY SOURCE
# small: a quarter of graphs/shard_towers.dot, also in bf16, and with frozen towers under plain SGD; whole: also under
# plain SGD. Exit code 77: there is no mpirun, or the build has no MPI.
size=$1 orrery=$(realpath "$2") source=$3
command -v mpirun >/dev/null || { echo 'SKIP: there is no mpirun' && exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=$work
graph=$source/graphs/shard_towers.dot
stages=24
if [ "$size" = small ]; then
	sed 's/repeat=11/repeat=2/; s/repeat=26/repeat=6/' "$graph" >"$work/small.dot"
	graph=$work/small.dot stages=8
fi

# measure SCHEDULE[@NAME] OPTION...: a line a rank, what was resident and what was predicted, in bytes
measure() {
	schedule=$1
	shift
	timeout 500 mpirun --oversubscribe -n 4 "$orrery" train "$graph" --data "$source/graphs/data/digits.csv" \
		--schedule "${schedule%@*}" --workers 4 --stages "$stages" -m 8 --batch 32 --steps 2 --lr 1e-5 --json "$@" \
		>"$work/$schedule.json" 2>"$work/log" || {
		grep -q 'was not found when it was configured' "$work/log" && echo 'SKIP: the build has no MPI' && exit 77
		cat "$work/log"
		exit 1
	}
	sed -n 's/^ *"peak_bytes": \([0-9-]*\),*$/\1/p' "$work/$schedule.json" >"$work/measured"
	sed -n 's/^ *"predicted_peak_bytes": \([0-9]*\),*$/\1/p' "$work/$schedule.json" >"$work/predicted"
	paste "$work/measured" "$work/predicted" >"$work/$schedule"
	[ "$(wc -l <"$work/$schedule")" -eq 4 ] || {
		echo "FAILED: no figures of 4 ranks in $(cat "$work/$schedule.json")"
		exit 1
	}
}

# compare MOST OPTION...: three tries, since messages that wait for a core of a busy machine are memory, too
compare() {
	once "$@" || once "$@" || once "$@"
}

# once MOST OPTION...: of both, what was resident beside what was predicted; fully sharded, at most that part
# of what data parallel takes
once() {
	most=$1
	shift
	measure fsdp "$@"
	measure ddp "$@"
	# 12 MB: what MPI and StarPU take while they run
	paste "$work/fsdp" "$work/ddp" | awk -v allowed=12e6 -v most="$most" '
	{
		printf "rank %d: fsdp %.1f MB, predicted %.1f; ddp %.1f MB, predicted %.1f\n", NR - 1, $1 / 1e6, $2 / 1e6, $3 / 1e6, $4 / 1e6
		for (i = 1; i < 4; i += 2)
			if ($i < 0.85 * $(i + 1) - allowed || $i > 1.15 * $(i + 1) + allowed) {
				printf "FAILED: %s of rank %d is not what was predicted\n", i == 1 ? "fsdp" : "ddp", NR - 1
				failed = 1
			}
		if ($1 > most * $3) {
			printf "FAILED: rank %d saves nothing\n", NR - 1
			failed = 1
		}
	}
	END { exit failed }'
}

compare 0.6 || exit 1

# divided: of the optimizer's state, 8 of 20 bytes of a parameter, each of 4 replicas saves three quarters
divided() {
	measure ddp@divided --shard-optimizer
	paste "$work/ddp" "$work/ddp@divided" | awk -v allowed=12e6 '
	{
		printf "rank %d: ddp %.1f MB, predicted %.1f; divided %.1f MB, predicted %.1f\n", NR - 1, $1 / 1e6, $2 / 1e6, $3 / 1e6, $4 / 1e6
		if ($3 < 0.85 * $4 - allowed || $3 > 1.15 * $4 + allowed) {
			printf "FAILED: rank %d is not what was predicted\n", NR - 1
			failed = 1
		}
		if ($2 - $4 < 0.28 * $2 || $2 - $4 > 0.31 * $2) {
			printf "FAILED: rank %d is not predicted to save 6 of 20 bytes\n", NR - 1
			failed = 1
		}
		if ($1 - $3 < 0.7 * ($2 - $4)) {
			printf "FAILED: rank %d does not save what is predicted\n", NR - 1
			failed = 1
		}
	}
	END { exit failed }'
}
divided || divided || divided || exit 1
if [ "$size" = whole ]; then
	compare 0.75 --optimizer sgd
	exit
fi
compare 0.6 --precision bf16 || exit 1
# of what is frozen there are the parameters alone
sed 's/subgraph cluster_[a-z]* {/& frozen=true;/' "$graph" >"$work/frozen.dot"
all=$(awk '{ sum += $2 } END { print sum }' "$work/ddp")
graph=$work/frozen.dot
compare 0.8 --optimizer sgd || exit 1
awk -v all="$all" '{ sum += $2 } END { exit !(sum < 0.9 * all) }' "$work/ddp" || {
	echo 'FAILED: frozen towers are predicted to take as much as trained ones'
	exit 1
}
