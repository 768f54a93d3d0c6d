#!/bin/sh
# A training that begins with a file of weights, across ranks: from one file 1 to 4 ranks come to the same weights, to the bit, and
# write them as one file; what is wrong with the file is said once. Usage: test_weights.sh ORRERY SOURCE
orrery=$(realpath "$1") source=$(realpath "$2")
# shellcheck source=tests/mpi.sh
. "$source/tests/mpi.sh"
passed=0

# train RANKS NAME OPTION...
train() {
	count=$1 name=$2
	shift 2
	set -- "$orrery" train "$source/graphs/tied_towers.dot" -m 4 -w 4 --batch 24 --save-weights "$work/$name" "$@"
	if [ "$count" -gt 1 ]; then
		ranks "$count" "$@" >"$work/out" 2>"$work/err"
	else
		"$@" >"$work/out" 2>"$work/err"
	fi
}

train 1 first --steps 10 || fail "first: $(cat "$work/err")"
for schedule in 1f1b ddp fsdp; do
	train 1 "$schedule" --steps 8 --init "$work/first" --schedule $schedule || fail "$schedule: $(cat "$work/err")"
	for count in 2 3 4; do
		train $count ranks --steps 8 --init "$work/first" --schedule $schedule ||
			fail "$schedule on $count ranks: $(cat "$work/err")"
		cmp "$work/$schedule" "$work/ranks" && passed=$((passed + 1))
		rm -f "$work/ranks"
	done
done
cmp -s "$work/first" "$work/1f1b" && fail 'nothing was trained'
head -c 1000 "$work/first" >"$work/cut"
train 3 none --steps 8 --init "$work/cut"
[ $? -eq 2 ] && [ "$(grep -c '^orrery: .*no whole safetensors file' "$work/err")" -eq 1 ] || fail "cut off: $(cat "$work/err")"
[ -e "$work/none" ] && fail 'weights of no training were written'
printf '%d passed\n' $passed
[ $passed -eq 9 ] && exit $failed
fail "$passed of 9"
exit 1
