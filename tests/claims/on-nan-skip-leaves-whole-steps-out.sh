# With --on-nan skip a step that is not finite is left out by all stages and replicas, counted, and training goes on.
needs_training
# one wild number in the training set
awk -F, -v OFS=, 'NR == 103 { $3 = "3e38" } 1' "$source/graphs/data/digits.csv" >wild.csv
train() { "$orrery" train "$source/graphs/digits.dot" --data wild.csv --steps 60 "$@"; }
figure() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1" <json; }

code=0
train -w 2 >out 2>err || code=$?
[ $code -eq 1 ] # it stops otherwise

for options in '--schedule 1f1b -w 2' '--schedule fsdp -w 3' '--schedule zb-h1 -w 6'; do
	rm -rf folder
	# shellcheck disable=SC2086
	train $options --on-nan skip --checkpoint folder --json --loss losses.csv >json 2>err
	skipped=$(figure skipped_steps)
	[ "$skipped" -gt 0 ]
	[ $((60 - skipped)) -eq "$(grep -c '^[0-9]' losses.csv)" ] # and has no loss
	python3 -c 'import sys; assert float(sys.argv[1]) > 0.9' "$(figure accuracy)"
	"$source/tests/tensors" folder >tensors
	[ ! -e expected ] || cmp tensors expected
	cp tensors expected
done
train -w 3 --schedule ddp --on-nan skip --json >json 2>err
[ "$(figure skipped_steps)" -eq "$skipped" ]
train -w 2 --on-nan skip >out 2>err
grep -q "^The updates of $skipped of them were left out: losses or gradients were not finite$" out

code=0
train -w 6 --schedule pipedream --on-nan skip >out 2>err || code=$?
[ $code -eq 2 ]
grep -q '^orrery: --on-nan skip: schedule pipedream never flushes' err
