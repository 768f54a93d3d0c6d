#!/bin/sh
# A model that is split among workers has the tensors of the unsplit one in its checkpoints, and begins with the weights of
# one: under another split, or none, they come back to the bit; across ranks, which put their parts together, a checkpoint
# has the same bits. What is dropped, and the norm to which gradients are clipped, follow no split.
# Usage: test_split_state.sh ORRERY SOURCE
orrery=$(realpath "$1") source=$(realpath "$2")
# shellcheck source=tests/mpi.sh
. "$source/tests/mpi.sh"
passed=0
# two blocks share a product, and floats are dropped by rows and by columns
sed -e 's/b1_gelu \[op=gelu\]/b1_gelu [op=dropout, rate=0.2]/; s/b2_sum1 \[op=add\]/&; b2_drop [op=dropout, rate=0.1]/' \
	-e 's/b2_sum1 -> b2_norm2/b2_sum1 -> b2_drop -> b2_norm2/' \
	-e 's/\(b[03]_fc1 \[.*\)\]/\1, share=products]/' \
	"$source/graphs/gpt.dot" >"$work/gpt.dot"
[ "$(grep -c 'share=products' "$work/gpt.dot")" -eq 2 ] && [ "$(grep -c 'b2_drop' "$work/gpt.dot")" -eq 2 ] &&
	[ "$(grep -c 'op=dropout' "$work/gpt.dot")" -eq 2 ] || fail "gpt.dot is another one"

# train NAME RANKS OPTION...: its losses and norms, its weights, a checkpoint
train() {
	name=$1 count=$2
	shift 2
	set -- "$orrery" train "$work/gpt.dot" -m 4 --batch 24 --clip 1 --checkpoint "$work/$name" --loss "$work/$name.csv" \
		--save-weights "$work/$name.safetensors" "$@"
	if [ "$count" -gt 1 ]; then
		ranks "$count" "$@" >"$work/out" 2>"$work/err" || fail "$name: $(cat "$work/err")"
	else
		"$@" >"$work/out" 2>"$work/err" || fail "$name: $(cat "$work/err")"
	fi
}

# like NAME: the last training came to its losses, weights and tensors
like() {
	if cmp "$work/$1.csv" "$work/$name.csv" && cmp "$work/$1.safetensors" "$work/$name.safetensors" &&
		same_tensors "$work/$1" "$work/$name"; then
		passed=$((passed + 1))
	else
		fail "$name: other bits than $1"
	fi
}

# weights NAME: the last training has its weights
weights() {
	if cmp "$work/$1.safetensors" "$work/$name.safetensors"; then
		passed=$((passed + 1))
	else
		fail "$name: other weights than $1"
	fi
}

# near NAME: and so are its losses and norms, but for sums in another order
near() {
	if paste -d, "$work/$1.csv" "$work/$name.csv" | awk -F, 'NR > 1 {
		n++
		for (i = 2; i <= NF / 2; i++) {
			d = $i / $(i + NF / 2) - 1
			if (d > 2e-5 || d < -2e-5)
				exit bad = 1
		}
	} END { exit bad || n != 5 }'; then
		passed=$((passed + 1))
	else
		fail "$name: other losses than $1: $(paste -d, "$work/$1.csv" "$work/$name.csv")"
	fi
}

train whole 1 --steps 5
for split in 2 4:copied; do
	train "split-$split" 1 --split $split --steps 5
	near whole
	train "ranks-$split" 2 --split $split --steps 5
	like "split-$split"
done
# the shards of both ranks are needed for it
for shard in 0 1; do
	[ "$(wc -c <"$work/ranks-2/step-00000005/shard-$shard.safetensors")" -gt 300000 ] || fail "one rank writes alone"
done
# without further training
for split in 1 4:copied; do
	name=again-$split
	"$orrery" train "$work/gpt.dot" -m 4 --batch 24 --clip 1 --steps 5 --checkpoint "$work/ranks-2" --resume --split $split \
		--save-weights "$work/$name.safetensors" >"$work/out" 2>"$work/err" || fail "$name: $(cat "$work/err")"
	weights split-2
done
for split in 2 3; do
	name=init-$split
	"$orrery" train "$work/gpt.dot" -m 4 --batch 24 --steps 0 --init "$work/split-2.safetensors" --split $split \
		--save-weights "$work/$name.safetensors" >"$work/out" 2>"$work/err" || fail "$name: $(cat "$work/err")"
	weights split-2
done
# and with: ranks take their parts of what the optimizer keeps
cp -R "$work/split-2" "$work/on"
cp -R "$work/split-2" "$work/on-ranks"
train on 1 --split 4:copied --steps 8 --resume
train on-ranks 2 --split 4:copied --steps 8 --resume
like on
# a rank whose disk is full keeps none waiting, and what was meant for it is not taken for something else
"$orrery" train "$work/gpt.dot" -m 4 --batch 24 --steps 2 --split 2 2>"$work/err" | grep '^Test loss' >"$work/loss"
for rank in 0 1; do
	cat >"$work/full" <<END
trap '' XFSZ
[ "\$OMPI_COMM_WORLD_RANK" = $rank ] && ulimit -f 150
exec "\$@"
END
	# Open MPI's shared memory lies in files, too
	OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo \
		ranks 2 sh "$work/full" "$orrery" train "$work/gpt.dot" -m 4 --batch 24 --steps 2 --split 2 --checkpoint "$work/full-$rank" \
		>"$work/out" 2>"$work/err"
	if [ $? -eq 1 ] && [ -s "$work/loss" ] && grep -qxFf "$work/loss" "$work/out" && grep -q "shard-$rank.safetensors: cannot be written: File too large$" "$work/err"; then
		passed=$((passed + 1))
	else
		fail "a full disk of rank $rank: $(cat "$work/err")"
	fi
done
# another graph, in one line
sed 's/rate=0.1/rate=0.2/' "$work/gpt.dot" >"$work/other.dot"
"$orrery" train "$work/other.dot" -m 4 --batch 24 --clip 1 --steps 9 --checkpoint "$work/on" --resume --split 2 >"$work/out" \
	2>"$work/err"
[ $? -eq 2 ] && grep -qF 'graph b2_drop is "dropout 64 x 48 of b2_sum1, rate 0.1" there and "dropout 64 x 48 of b2_sum1, rate 0.2" here' \
	"$work/err" || fail "another graph: $(cat "$work/err")"
printf '%d passed\n' $passed
[ $passed -eq 11 ] && exit $failed
fail "$passed of 11"
exit 1
