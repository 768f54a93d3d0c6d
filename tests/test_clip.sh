#!/bin/sh
# Clipped gradients across ranks: losses, norms and parameters are the same to the bit on 1 to 4 ranks, with one owner a
# stage under any schedule, and with replicas however these lie; parameters that are shared count once. Usage:
# test_clip.sh ORRERY SOURCE
orrery=$(realpath "$1") source=$(realpath "$2")
# shellcheck source=tests/mpi.sh
. "$source/tests/mpi.sh"
passed=0

# train NAME RANKS OPTION...: two towers that share all their parameters
train() {
	name=$1 count=$2
	shift 2
	set -- "$orrery" train "$source/graphs/tied_towers.dot" --batch 24 --steps 24 --clip 1.5 --warmup 6 --decay cosine \
		--checkpoint "$work/$name" --loss "$work/$name.csv" "$@"
	if [ "$count" -gt 1 ]; then
		ranks "$count" "$@" >"$work/out" 2>"$work/err" || fail "$name: $(cat "$work/err")"
	else
		"$@" >"$work/out" 2>"$work/err" || fail "$name: $(cat "$work/err")"
	fi
}

# like NAME: the last training came to its parameters, losses and norms
like() {
	if cmp "$work/$1.csv" "$work/$name.csv" && same_tensors "$work/$1" "$work/$name"; then
		passed=$((passed + 1))
	else
		fail "$name: other bits than $1"
	fi
}

train one 1 -m 4 -w 5 --schedule 1f1b
awk -F, 'NR == 1 && $NF != "norm" { exit 1 } NR > 1 { n++; clipped += $NF > 1.5; if (!($NF > 0)) exit 1 }
	END { exit !(n == 24 && clipped > 0 && clipped < n) }' "$work/one.csv" || fail "norms: $(cat "$work/one.csv")"
for count in 2 3 4; do
	train "ranks-$count" $count -m 4 -w 5 --schedule 1f1b
	like one
done
train split 3 -m 4 -w 5 --schedule zb-h1
like one
train skip 2 -m 4 -w 5 --schedule gpipe --on-nan skip
like one
for schedule in ddp fsdp; do
	train $schedule 1 -m 4 -w 4 --schedule $schedule
	for count in 2 4; do
		train "$schedule-$count" $count -m 4 -w 4 --schedule $schedule
		like $schedule
	done
done
printf '%d passed\n' $passed
[ $passed -eq 9 ] && exit $failed
fail "$passed of 9"
exit 1
