# simulate, compare, plan and train say what a parameter costs in memory, by one optimizer and precision, and count it so.
adamw='16 B a parameter: 4 weights, 4 gradient, 8 adamw'
"$orrery" simulate chain:4 --parameters 4MB | grep "memory  *16 MB on worker 0, $adamw"
"$orrery" compare chain:4 --parameters 4MB | grep "$adamw"
"$orrery" plan chain:4 -w 4 --straight --parameters 4MB | grep "$adamw"
"$orrery" simulate chain:4 --parameters 4MB --optimizer sgd --precision bf16 |
	grep 'memory  *10 MB on worker 0, 10 B a parameter: 4 weights, 4 gradient, 0 sgd, 2 rounded to bf16'
"$orrery" simulate chain:4 --parameters 4MB --optimizer momentum --json >simulate.json
"$orrery" compare chain:4 --parameters 4MB --optimizer momentum --json >compare.json
"$orrery" plan chain:4 -w 4 --straight --parameters 4MB --optimizer momentum --json >plan.json
python3 - <<'END'
import json
for name in 'simulate', 'compare', 'plan':
    report = json.load(open(name + '.json'))
    assert report['optimizer'] == 'momentum' and report['precision'] == 'fp32', name
    cost = report['bytes_per_parameter']
    assert cost == {'weights': 4, 'gradient': 4, 'optimizer': 4, 'rounded': 0, 'all': 12}, (name, cost)
    workers = report.get('worker') or [x for x in report['schedules'] if x['schedule'] == '1f1b']
    assert all(w['memory_bytes'] == 12000000 for w in workers), (name, workers)
END
# a file keeps what it was made for
"$orrery" simulate chain:4 --parameters 4MB --optimizer sgd -o sgd.json >/dev/null
"$orrery" simulate sgd.json | grep '8 B a parameter: 4 weights, 4 gradient, 0 sgd'
needs_training
"$orrery" train "$source/graphs/digits.dot" --steps 2 --device cpu | grep "$adamw"
"$orrery" train "$source/graphs/digits.dot" --steps 2 --device cpu --optimizer none --json | grep '"optimizer": "none"'
