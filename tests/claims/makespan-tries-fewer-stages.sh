# plan --makespan also tries fewer stages: of one stage on 4 replicas, 2 on 2 and 4 on one each, it takes the shortest step.
set -- chain:8 --costs 1ms,2ms --parameters 3MB --activation 2MB --stash 1MB -m 8 --json
"$orrery" plan "$@" -w 4 --link 1GB/s --makespan >plan.json
"$orrery" plan "$@" -w 4 --link 1GB/s >fastest.json
# alone, where transfers cost more than a second worker gives
"$orrery" plan "$@" -w 2 --link 1MB/s --makespan --straight -m 1 >alone.json
"$orrery" plan "$@" -w 2x2 --link 1GB/s,100MB/s --makespan >levels.json
"$orrery" plan "$@" -w 2x2 --link 1GB/s,100MB/s >levels-fastest.json

python3 - <<'END2'
import json
def read(name):
    return json.load(open(name))
plan, fastest, alone = read("plan.json"), read("fastest.json"), read("alone.json")
assert len(fastest["stages"]) == 4, fastest["stages"]
assert len(plan["stages"]) == 2 and all(len(s["workers"]) == 2 for s in plan["stages"]), plan["stages"]
assert abs(plan["makespan"] - 0.080) < 1e-9 and plan["makespan"] < fastest["makespan"], plan["makespan"]
assert len(alone["stages"]) == 1 and abs(alone["makespan"] - 0.024) < 1e-9, alone
assert read("levels.json")["makespan"] <= read("levels-fastest.json")["makespan"]
END2
