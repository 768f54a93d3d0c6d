# What `plan --memory` says fits, simulates and trains in that memory, and one byte less is refused by all three, with the
# optimizer and the precision that the plan was made for.
graph=$source/graphs/digits.dot
limit_of() {
	tail -n 1 "$1" | sed -n 's/.*what fits is --memory \([0-9]*\)B.*/\1/p'
}
# refused COMMAND...: exit code 2, for memory
refused() {
	status=0
	"$@" >out 2>err || status=$?
	[ $status -eq 2 ] && grep -q 'worker [0-9]* needs\|no plan fits' err || { echo "not refused ($status): $*"; cat err; exit 1; }
}

for numerics in '' '--optimizer momentum' '--optimizer none --precision bf16'; do
	refused "$orrery" plan "$graph" -w 2 --straight --memory 100kB $numerics
	limit=$(limit_of err)
	refused "$orrery" plan "$graph" -w 2 --straight --memory $((limit - 1))B $numerics
	"$orrery" plan "$graph" -w 2 --straight --memory ${limit}B $numerics -o plan.json
	"$orrery" simulate plan.json --memory ${limit}B
	refused "$orrery" simulate plan.json --memory $((limit - 1))B
	[ $can_train = yes ] || continue
	"$orrery" train plan.json --memory ${limit}B --steps 1 --device cpu
	refused "$orrery" train plan.json --memory $((limit - 1))B --steps 1 --device cpu
done

# the last one was made without an optimizer's state: with AdamW it does not fit, and that is said
refused "$orrery" simulate plan.json --optimizer adamw --memory ${limit}B
grep -q 'plan.json was made for none in bf16; with adamw in bf16 worker [0-9]* needs' err

# two encoders of 21 million parameters
graph=$source/graphs/wide_towers.dot
refused "$orrery" plan "$graph" -w 2 --straight --memory 60MB
limit=$(limit_of err)
"$orrery" plan "$graph" -w 2 --straight --memory ${limit}B -o towers.json
refused "$orrery" simulate towers.json --memory $((limit - 1))B
needs_training
"$orrery" train towers.json --memory ${limit}B --steps 1 --device cpu
