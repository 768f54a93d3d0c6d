# A schedule that deals out whole stages puts them on the plan's workers, in compare too; another one says that it does not.
cat >model.dot <<'END'
digraph {
	a [forward="16ms", backward="4ms", activation="2MB"];
	b [forward="7ms", backward="5ms", activation="1MB"];
	c [forward="4ms", backward="9ms", activation="5MB"];
	d [forward="5ms", backward="8ms"];
	a -> b -> d;
	a -> c -> d;
}
END
"$orrery" plan model.dot -w 2x2 --link 1GB/s,0.3GB/s --straight -m 8 -o plan.json >out
# the same plan with its workers in another order within and across the two groups
python3 - <<'END'
import json
plan = json.load(open("plan.json"))
assert len(plan["stages"]) == 4, plan["stages"]
to = [3, 1, 2, 0]
for stage in plan["stages"]:
    stage["workers"] = [to[w] for w in stage["workers"]]
plan["worker"] = [plan["worker"][to.index(w)] for w in range(4)]
json.dump(plan, open("moved.json", "w"))
END
workers() { # FILE
	python3 -c "import json, sys; print([s['worker'] for s in json.load(open(sys.argv[1]))['stages']])" "$1"
}
"$orrery" simulate moved.json --json >own.json
for schedule in 1f1b gpipe pipedream zb-h1; do
	"$orrery" simulate moved.json --schedule $schedule --json >$schedule.json
	[ "$(workers $schedule.json)" = "$(workers own.json)" ] || { echo "$schedule: $(workers $schedule.json)"; exit 1; }
	"$orrery" simulate moved.json --schedule $schedule >out
	if grep -q '^placed:' out; then exit 1; fi
done
"$orrery" compare moved.json --json >compare.json
python3 - <<'END'
import json
rows = {x["schedule"]: x["makespan"] for x in json.load(open("compare.json"))["schedules"]}
for name in "1f1b", "gpipe", "pipedream", "zb-h1":
    assert rows[name] == json.load(open(name + ".json"))["makespan"], (name, rows[name])
END
"$orrery" simulate moved.json --schedule ddp >out
grep -q '^placed: by ddp, not as planned: ' out
