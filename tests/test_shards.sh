#!/bin/sh
# The optimizer's state divided among replicas: losses, parameters and the state in checkpoints are those of a training
# that does not divide it, to the bit, on 1 to 4 ranks, and it goes on either way; as much is sent, and no more than the
# formula says. Usage: test_shards.sh ORRERY SOURCE
orrery=$(realpath "$1") source=$(realpath "$2")
# shellcheck source=tests/mpi.sh
. "$source/tests/mpi.sh"
passed=0

# train NAME RANKS GRAPH OPTION...
train() {
	name=$1 count=$2 graph=$3
	shift 3
	set -- "$orrery" train "$graph" --batch 24 --checkpoint "$work/$name" --loss "$work/$name.csv" --json "$@"
	if [ "$count" -gt 1 ]; then
		ranks "$count" "$@" >"$work/$name.json" 2>"$work/err" || fail "$name: $(cat "$work/err")"
	else
		"$@" >"$work/$name.json" 2>"$work/err" || fail "$name: $(cat "$work/err")"
	fi
}

# like NAME: the last training came to its parameters, state and losses
like() {
	if cmp "$work/$1.csv" "$work/$name.csv" && same_tensors "$work/$1" "$work/$name"; then
		passed=$((passed + 1))
	else
		fail "$name: other bits than $1"
	fi
}

# sums NAME: bytes that each rank sent in all-reduces
sums() { grep -A 4 '"sent"' "$work/$1.json" | sed -n 's/.*"bytes": \([0-9]*\).*/\1/p'; }

# both COUNTS NAME SCHEDULE WORKERS GRAPH OPTION...: as a whole, and divided on so many ranks
both() {
	counts=$1 case=$2 schedule=$3 w=$4 graph=$5
	shift 5
	train "$case" 1 "$graph" --steps 6 --schedule "$schedule" -w "$w" "$@"
	for count in $counts; do
		train "$case-$count" $count "$graph" --steps 6 --schedule "$schedule" -w "$w" --shard-optimizer "$@"
		like "$case"
	done
}

digits=$work/digits.dot towers=$source/graphs/tied_towers.dot
both '1 2 4' ddp ddp 4 "$digits" -m 4
both '1 2' momentum ddp 4 "$digits" -m 4 --optimizer momentum --weight-decay 0.01 --spare
both '2' sgd ddp 4 "$digits" -m 4 --optimizer sgd
both '1 4' clip ddp 4 "$digits" -m 4 --clip 0.5
both '2' skip ddp 4 "$digits" -m 4 --on-nan skip
both '2' lpp lpp:G=2,R=2 4 "$digits" -m 8 --stages 4
both '2' chimera chimera 4 "$digits" -m 8 --stages 4
both '1 2' tied ddp 4 "$towers" -m 4
both '1 4' replicas interleaved 4 "$digits" -m 8 --stages 4 --replicas 2
both '2' rounds pipedream:replicas=2-2 4 "$digits" -m 6 --stages 2

# replicas of a whole pipeline of one stage
train single 1 "$digits" --steps 6 -m 4 --schedule ddp -w 4 --stages 1
train one 2 "$digits" --steps 6 -m 4 --schedule 1f1b -w 4 --stages 1 --replicas 4
like single

# from one to the other in the middle
train half 4 "$digits" --steps 3 -m 4 --schedule ddp -w 4 --shard-optimizer
train half 2 "$digits" --steps 6 -m 4 --schedule ddp -w 4 --resume
same_tensors "$work/ddp" "$work/half" && passed=$((passed + 1)) || fail 'divided, then not: other bits'
train other 2 "$digits" --steps 3 -m 4 --schedule ddp -w 4
train other 4 "$digits" --steps 6 -m 4 --schedule ddp -w 4 --shard-optimizer --resume
same_tensors "$work/ddp" "$work/other" && passed=$((passed + 1)) || fail 'not divided, then divided: other bits'

# as much is sent as in an all-reduce, 2 (k-1)/k of the parameters in each of 6 steps
train whole 4 "$digits" --steps 6 -m 4 --schedule ddp -w 4
sums whole >"$work/sent"
sums ddp-4 >"$work/divided"
parameters=$("$orrery" show "$digits" --json | awk -F'[:,]' '/"parameters":/ { print $2 + 0; exit }')
if cmp "$work/sent" "$work/divided" &&
	awk -v p="$parameters" '{ n++; sum += $1 } END { exit !(n == 4 && sum == 6 * 6 * 4 * p) }' "$work/divided"; then
	passed=$((passed + 1))
else
	fail "sent, of $parameters parameters: $(cat "$work/divided"), as a whole $(cat "$work/sent")"
fi
printf '%d passed\n' $passed
[ $passed -eq 20 ] && exit $failed
fail "$passed of 20"
exit 1
