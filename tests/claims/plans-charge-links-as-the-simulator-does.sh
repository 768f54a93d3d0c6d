# What plan calls the slowest stage is what the simulator finds in a long run that has enough microbatches in flight: a tensor
# goes to its reader directly and once, its gradient comes back beside the next one, no link is charged that nobody uses, and
# replicas all-reduce in one ring a step.
cat >fan.dot <<'END'
digraph {
	a [forward="4ms" backward="23ms" activation="165B"];
	b [forward="21ms" backward="20ms" activation="9B"];
	c [forward="20ms" backward="29ms" activation="8B"];
	d [forward="23ms" backward="19ms" activation="143B"];
	e [forward="41ms" backward="14ms" activation="67B"];
	a -> {b; c; d} -> e;
}
END
"$orrery" plan fan.dot --workers 5 --link 1200B/s --straight -m 256 --json -o eager.json >fan.json
"$orrery" simulate eager.json --schedule eager-1f1b --json >eager.out

echo 'digraph { node [forward="2s" backward="4s" activation="8GB" parameters="1GB"]; a -> b }' >two.dot
"$orrery" plan two.dot --workers 2 --link 1GB/s -m 4 --json >flat.json
"$orrery" plan two.dot --workers 1x2 --link 1MB/s,1GB/s -m 4 --json >levels.json
"$orrery" plan two.dot --workers 2x1 --link 1GB/s,1MB/s -m 4 --json >outer.json

python3 - <<'END'
import json
def read(name):
    plan = json.load(open(name))
    return plan["slowest_stage"], plan["makespan"] / plan["microbatches"]
slowest, _ = read("fan.json")
assert slowest == 165 / 1200, slowest
simulated = json.load(open("eager.out"))["makespan"] / 256
assert slowest <= simulated <= 1.02 * slowest, (slowest, simulated)
# two replicas: 2 * 12 s of computing each, then a ring of 2 GB, shared by 4 microbatches
for name in "flat.json", "levels.json", "outer.json":
    for time in read(name):
        assert abs(time - (24 + 2) / 4) < 1e-9, (name, read(name))
END
