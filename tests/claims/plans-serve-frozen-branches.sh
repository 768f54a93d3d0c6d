# Plans of models with frozen stages: a frozen branch that is numbered after what is trained, on workers that differ, and
# with the order searched for.
echo 'digraph k { node [forward=1, backward=1, weight=1]; i1 [frozen=true, forward=2]; t1 -> t2; i1 -> mid; t2 -> mid -> head; }' >k.dot
echo 'graph m { a [speed=2]; b [speed=2]; c; d }' >m.dot
for words in '-w 4' '-w 4 --straight' '--machine m.dot' '--machine m.dot --straight' '-w 4 --straight --search=1' \
	'--machine m.dot --straight --search=1'; do
	"$orrery" plan k.dot -m 6 $words -o plan.json --json >json
	"$orrery" simulate plan.json --json >again
	python3 -c '
import json
plan, step = json.load(open("json")), json.load(open("again"))
i1 = [s for s in step["stages"] if "i1" in s["operators"]]
assert len(step["stages"]) == 1 or len(i1[0]["operators"]) > 1 or not i1[0]["backward"]
assert abs(plan["makespan"] - step["makespan"]) < 1e-9, (plan["makespan"], step["makespan"])'
done
