# simulate says which operators each stage has, where it is and what it costs, numbered as show lists them, in text, JSON and SVG.
cat >ord.dot <<'E'
digraph o { a [forward=1 backward=1]; b [forward=2 backward=2]; c [forward=3 backward=3 parameters="8MB"]; d [forward=1 backward=1]; a->b; c->d; b->d }
E
$orrery show ord.dot --json >show.json
$orrery simulate ord.dot -m 2 --json >s.json
$orrery simulate ord.dot -m 2 -w 2 --schedule ddp --json >ddp.json
$orrery simulate ord.dot -m 2 --svg s.svg >s.txt
$orrery plan ord.dot -w 4 --straight --contiguous --json >plan.json
grep -qE '^s2 +2 +3 +3 +8 MB +c$' s.txt
grep -q '<title>2F0, stage 2 (c): 0 to 3 units</title>' s.svg
python3 - <<'E'
import json
show = [o["name"] for o in json.load(open("show.json"))["operators"]]
s, ddp, plan = json.load(open("s.json")), json.load(open("ddp.json")), json.load(open("plan.json"))
for listed in s["stages"], ddp["stages"], plan["stages"]:
	assert [x["operators"] for x in listed] == [[name] for name in show], listed
assert [x["worker"] for x in s["stages"]] == [0, 1, 2, 3]
assert [x["forward"] for x in s["stages"]] == [1, 2, 3, 1] and s["unit"] == "units" and s["model"] == "ord.dot"
assert s["stages"][2]["parameter_bytes"] == 8000000 and s["stages"][2]["frozen"] is False
assert ddp["stages"][0]["worker"] is None and ddp["stages"][0]["workers"] == [0, 1]
E
needs_training
$orrery train "$source/graphs/digits.dot" -w 2 --steps 2 --json >t.json
python3 -c 'import json; t = json.load(open("t.json")); assert t["stages"][4]["operators"] == ["join", "fc3", "relu3"] and t["unit"] == "seconds"'
