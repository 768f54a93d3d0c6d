#!/bin/sh
# Two towers that share all their parameters, trained on digits: the parameters, and what the optimizer keeps, are the
# same to the bit on any number of workers, in any cut, under any schedule with one owner a stage, and across ranks; with
# replicas, across ranks; both towers have the same ones. Usage: test_tied.sh ORRERY SOURCE
orrery=$(realpath "$1") source=$(realpath "$2")
# shellcheck source=tests/mpi.sh
. "$source/tests/mpi.sh"
sed 's/stage=[0-9]*//' "$source/graphs/tied_towers.dot" >"$work/cut.dot"
sed 's/, share=[a-z0-9]*//' "$source/graphs/tied_towers.dot" >"$work/apart.dot"
passed=0

# train FOLDER COUNT GRAPH OPTION...: on so many ranks
train() {
	folder=$1 count=$2 graph=$3
	shift 3
	set -- "$orrery" train "$graph" -m 4 --batch 24 --checkpoint "$work/$folder" "$@"
	if [ "$count" -gt 1 ]; then
		ranks "$count" "$@" >"$work/out" 2>"$work/err" || fail "$folder: $(cat "$work/err")"
	else
		"$@" >"$work/out" 2>"$work/err" || fail "$folder: $(cat "$work/err")"
	fi
}

# like FOLDER: the last training ended with its tensors
like() {
	if same_tensors "$work/$1" "$work/$folder"; then
		passed=$((passed + 1))
	else
		fail "$folder: other parameters than $1"
	fi
	rm -rf "${work:?}/$folder"
}

cp "$source/graphs/tied_towers.dot" "$work"
towers=$work/tied_towers.dot
for precision in fp32 bf16; do
	one=one-$precision
	train "$one" 1 "$towers" -w 1 --schedule gpipe --steps 6 --precision $precision
	for tower in upper lower; do
		"$source/tests/tensors" "$work/$one" | sed -n "s/${tower}_//p" | sort >"$work/$tower"
	done
	if [ -s "$work/upper" ] && cmp -s "$work/upper" "$work/lower"; then
		passed=$((passed + 1))
	else
		fail "$precision: the towers differ: $(diff "$work/upper" "$work/lower" | head -n 4)"
	fi
	train w5 1 "$towers" -w 5 --schedule 1f1b --steps 6 --precision $precision
	like "$one"
done
one=one-fp32
train greedy 1 "$towers" -w 5 --schedule eager-1f1b --steps 6
like $one
train split 1 "$towers" -w 5 --schedule zb-h1 --steps 6
like $one
for stages in 1 2 4; do
	train "cut-$stages" 1 "$work/cut.dot" -w "$stages" --stages "$stages" --schedule gpipe --steps 6
	like $one
done
train skip 1 "$towers" -w 5 --schedule 1f1b --steps 6 --on-nan skip
like $one
# resumed on another placement
train resumed 1 "$towers" -w 5 --schedule gpipe --steps 3
train resumed 2 "$towers" -w 5 --schedule 1f1b --steps 6 --resume
like $one
train ranks 3 "$towers" -w 5 --schedule 1f1b --steps 6
like $one
# more than two: whatever is on which rank, one order of addition
python3 - >"$work/three.dot" <<'PYTHON'
print('digraph { data="data/digits.csv"; join [op=concat]; scores [op=linear, features=10]; digit [op=input, columns="64"];')
for k in range(3):
    print(f't{k} [op=input, columns="{21 * k}:{21 * k + 21}", scale=0.0625]; f{k} [op=linear, features=7, share=f];'
          f'r{k} [op=relu]; t{k} -> f{k} -> r{k} -> join;')
print('loss [op=softmax_cross_entropy]; join -> scores -> loss; digit -> loss }')
PYTHON
train three 1 "$work/three.dot" -w 1 --stages 1 --schedule gpipe --steps 6
for count in 1 3 4; do
	train "three-$count" $count "$work/three.dot" -w 4 --stages 4 --schedule 1f1b --steps 6
	like three
done
# replicas add up in an order of their own
for schedule in ddp fsdp chimera; do
	graph=$towers options='-w 3'
	[ $schedule = chimera ] && graph=$work/cut.dot options='-w 4 --stages 4'
	# shellcheck disable=SC2086
	train $schedule 1 "$graph" $options --schedule $schedule --steps 6
	# shellcheck disable=SC2086
	train $schedule-ranks 2 "$graph" $options --schedule $schedule --steps 6
	like $schedule
done
# and what is not shared goes its own way
train apart 1 "$work/apart.dot" -w 1 --schedule gpipe --steps 6
same_tensors "$work/$one" "$work/apart" && fail 'untied: nothing is different'
# the gradient is the sum: of f(x) + f(y), with f linear, that of f(x + y), and twice that of its bias
python3 -c 'import random
random.seed(3)
for _ in range(64):
    x, y, t = ([random.randint(-8, 8) / 8 for _ in range(n)] for n in (3, 3, 2))
    print(*x, *y, *(a + b for a, b in zip(x, y)), *t, sep=",")' >"$work/sums.csv"
inputs='t [op=input, columns="9:11"]; c [op=concat]; loss [op=mse]; a [op=linear, features=2'
printf '%s\n' "digraph { data=\"sums.csv\"; p [op=input, columns=\"0\"]; q [op=input, columns=\"1:3\"];
	r [op=input, columns=\"3:6\"]; $inputs, share=f]; b [op=linear, features=2, share=f]; sum [op=add];
	p -> c; q -> c; c -> a -> sum -> loss; r -> b -> sum; t -> loss }" >"$work/both.dot"
printf '%s\n' "digraph { data=\"sums.csv\"; p [op=input, columns=\"6\"]; q [op=input, columns=\"7\"];
	r [op=input, columns=\"8\"]; $inputs]; p -> c; q -> c; r -> c; c -> a -> loss; t -> loss }" >"$work/sum.dot"
train sum 1 "$work/sum.dot" -w 1 --stages 1 --schedule gpipe --steps 1 --optimizer sgd --lr 0.125
train both 1 "$work/both.dot" -w 2 --stages 2 --schedule 1f1b --steps 1 --optimizer sgd --lr 0.125
if python3 - "$work/sum" "$work/both" <<'PYTHON'; then
import json, pathlib, struct, sys
def read(folder):
    found = {}
    for shard in max(pathlib.Path(folder).glob('step-*')).glob('shard-*.safetensors'):
        content = shard.read_bytes()
        start = 8 + int.from_bytes(content[:8], 'little')
        for name, x in json.loads(content[8:start]).items():
            if name != '__metadata__':
                first, last = x['data_offsets']
                found[name] = struct.unpack(f'<{(last - first) // 4}f', content[start + first:start + last])
    return found
one, two = read(sys.argv[1]), read(sys.argv[2])
assert two['a.weight'] == two['b.weight'] and two['a.bias'] == two['b.bias']
assert any(abs(x) > 1e-3 for x in one['a.bias'])
for name, times in (('a.weight', 1), ('a.bias', 2)):
    assert all(abs(y - times * x) < 1e-6 for x, y in zip(one[name], two[name])), (name, one[name], two[name])
PYTHON
	passed=$((passed + 1))
else
	fail 'the gradient is not the sum of both'
fi
printf '%d passed\n' $passed
[ $passed -eq 19 ] && exit $failed
fail "$passed of 19"
exit 1
