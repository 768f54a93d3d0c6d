# --evaluate-every prints test losses on the way and gives them to --loss and --json; --keep-best keeps the checkpoint of the lowest,
# whatever --keep removes, and goes by all of a training that was resumed.
needs_training
graph=$source/graphs/deep.dot
train() { "$orrery" train "$graph" -w 2 --lr 0.02 --evaluate-every 5 "$@" 2>err; }

train --steps 60 --checkpoint whole --keep 1 --every 7 --keep-best --loss whole.csv --json >whole.json
[ "$(ls whole)" = "best
step-00000060" ]
best=$(python3 - whole.csv whole.json <<'PYTHON'
import csv, json, sys
rows = list(csv.DictReader(open(sys.argv[1])))
said = json.load(open(sys.argv[2]))
found = [(float(r['test_loss']), int(r['step'])) for r in rows if r['test_loss']]
assert [r['step'] for r in rows] == [str(k) for k in range(1, 61)]
assert [step for _, step in found] == list(range(5, 61, 5))
assert [e['step'] for e in said['evaluations']] == [step for _, step in found]
assert all(abs(e['loss'] - loss) < 1e-8 for e, (loss, _) in zip(said['evaluations'], found))
assert abs(found[-1][0] - said['loss']) < 1e-8
assert said['best']['step'] == min(found)[1] and min(found)[1] < 60, found # else nothing is shown
print(min(found)[1])
PYTHON
)
[ "$(ls whole/best)" = "$(printf 'step-%08d' "$best")" ]
[ "$(grep -c ': test loss .*, test accuracy ' err)" -eq 12 ]

# stopped after the best, and going on: the best of before is still the best
train --steps 53 --checkpoint parts --keep 1 --keep-best --loss first.csv >/dev/null
train --steps 60 --checkpoint parts --keep 1 --keep-best --loss second.csv --resume >out
grep -q "^The lowest, .*, was after step $best: parts/best$" out
[ "$(ls parts/best)" = "$(ls whole/best)" ]
for step in 55 60; do
	grep "^$step," second.csv | cmp - - <<-END
		$(grep "^$step," whole.csv)
	END
done
"$source/tests/tensors" whole >a
"$source/tests/tensors" parts >b
cmp a b
"$source/tests/tensors" whole/best >a
"$source/tests/tensors" parts/best >b
cmp a b

# it is a checkpoint like any other: with the steps up to there trained, its model is what is left
train --steps "$best" --checkpoint whole/best --resume --json >again.json
python3 -c 'import json
whole, again = json.load(open("whole.json")), json.load(open("again.json"))
assert whole["best"]["loss"] == again["loss"] and whole["best"]["accuracy"] == again["accuracy"]'

# epochs: of 1437 rows, 15 steps of 96
train --steps 45 --evaluate-every 1epoch --loss epochs.csv >/dev/null
[ "$(awk -F, 'NR > 1 && $(NF - 1) != "" { printf "%s ", $1 }' epochs.csv)" = '15 30 45 ' ]

refuse() {
	code=0
	train "$@" >out || code=$?
	[ $code -eq 2 ] && grep -q -- "$message" err
}
message='--keep-best: nothing says when' && "$orrery" train "$graph" --steps 5 --checkpoint c --keep-best 2>err >out && exit 1
grep -q -- "$message" err
message='parts/best: has the best of another training, of step .*: give --checkpoint parts/best --resume' && rm -rf parts/step-* && refuse --steps 5 --checkpoint parts --keep-best
message='--evaluate-every: ' && refuse --steps 5 --evaluate-every 1hour

# where the best is damaged, the rest goes on without it
for file in whole/best/*/*.safetensors; do
	truncate -s 100 "$file"
done
message='whole/best: no checkpoint there is whole: move that folder away' && refuse --steps 61 --checkpoint whole --resume --keep-best
mv whole/best damaged
train --steps 61 --checkpoint whole --resume --keep-best >/dev/null
