# A model in ONNX is shown, simulated, compared and planned like a graph; DOT says the same of it; one whose operators all
# have their like trains from its weights, to the bit as that DOT does; and what cannot train says why.
onnx="$source/tests/onnx"
refused() { # TEXT ARGUMENTS...
	code=0
	"$orrery" "${@:2}" >out 2>err || code=$?
	[ $code -eq 2 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$1" err
}
if "$orrery" show "$onnx/mlp.onnx" 2>&1 | grep 'this build reads no ONNX'; then
	exit 77
fi
for model in mlp cnn block numbers decoder; do
	"$orrery" show "$onnx/$model.onnx" --dot >$model.dot
	"$orrery" show "$onnx/$model.onnx" --json >one
	"$orrery" show $model.dot --json >two
	python3 - <<'END'
import json
one, two = (json.load(open(name)) for name in ('one', 'two'))
for found in one, two:
    for key in 'graph', 'data':
        found.pop(key)
    for operator in found['operators']:
        operator.pop('line', None)
assert one == two and len(one['operators']) > 5
END
	for file in "$onnx/$model.onnx" $model.dot; do
		"$orrery" simulate "$file" -w 2 -m 4 --json | grep -v '"model"' >"$(basename "$file").json"
	done
	cmp $model.onnx.json $model.dot.json
done
"$orrery" show "$onnx/block.onnx" | grep -qx 'not known, counted as 0 FLOP: gate (FancyGate)'
"$orrery" simulate "$onnx/block.onnx" -w 2 | grep -q '^not tested: some operators (they are not known and count as 0 FLOP: show names them)'
"$orrery" compare "$onnx/cnn.onnx" -w 2 -m 4 | grep -q '1f1b'
"$orrery" plan "$onnx/cnn.onnx" -w 2 -m 4 --straight -o plan.json >planned
"$orrery" simulate plan.json --json >one
python3 -c 'import json; assert json.load(open("one"))["makespan"] == json.load(open("plan.json"))["makespan"]'
head -c 300 "$onnx/cnn.onnx" >cut.onnx
refused 'cut.onnx: no ONNX model, or a damaged one: export it again' show cut.onnx
refused 'absent.onnx: cannot open it: No such file' simulate absent.onnx
needs_training
data="--data $source/graphs/data/digits.csv --steps 4 --batch 32 -m 4 -w 2"
for model in numbers decoder; do
	"$orrery" train "$onnx/$model.onnx" $data --loss $model.onnx.csv >report
	"$orrery" train $model.dot --init "$onnx/$model.onnx" $data --loss $model.dot.csv >report
	cmp $model.onnx.csv $model.dot.csv
	[ "$(wc -l <$model.dot.csv)" -ge 4 ]
done
refused 'embed (Gather) is opaque: it has costs and nothing to compute' train "$onnx/block.onnx" $data
