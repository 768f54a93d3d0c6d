# What simulate -o writes, simulate reads back to the same timeline and figures, to the byte, whatever the schedule, the model and the machine.
cat >dag.dot <<'E'
digraph dag {
	node [forward="1ms" backward="3ms" weight="1ms" update="0.2ms" activation="1MB" stash="8MB" parameters="4MB"]
	a; b; c; d; e; f; g; h; a->b->c->g->h; d->e->f; f->g; a->e; c->h; b->f [dir=forward]
}
E
cat >twice.dot <<'E'
digraph twice { x [op=input columns="0:8"]; y [op=input columns="8"]; p [op=linear features=64]; q [op=linear features=32]; r [op=relu]
	j [op=concat]; k [op=linear features=16]; z [op=linear features=4]; l [op=softmax_cross_entropy]; x->p->r->j; x->q->j; j->k->z->l; y->l }
E
cat >run.py <<'E'
import concurrent.futures, itertools, json, os, re, subprocess, sys
orrery = os.environ["orrery"]
links = ["--latency", "0.05ms", "--bandwidth", "2GB/s"]
models = {
	"chain": ["chain:8", "--costs", "1,1,1", "--latency", "0.25"],
	"towers": ["towers:3,3/2", "--costs", "2,3", "--stash", "1MB", "--activation", "1GB", "--parameters", "2GB", "--bandwidth", "4GB/s"],
	"dag": ["dag.dot", *links],
	"model": ["twice.dot", "--stages", "4", "--flops", "1e6", "--batch", "100", *links],
}
names = [line.split()[0] for line in subprocess.run([orrery, "schedules"], capture_output=True, text=True, check=True).stdout.splitlines() if re.match(r"[a-z0-9]", line)]
assert len(names) >= 29, names
more = {"chain": ["lpp:G=2,R=2", "fslpp:G=2,R=2", "auto:memory=3,effort=0", "adaptive:memory=6", "pipedream:replicas=1-2-1-1-1-1-1-1"],
	"towers": ["lpp:G=2,R=2", "fslpp:G=2,R=2", "k-periodic:k=2"], "dag": ["auto:memory=40MB,effort=0"], "model": ["gpipe"]}
options = {"pipedream": [[], ["--sync", "vertical"], ["--accumulate", "4", "--sync", "none"]], "1f1b": [[], ["--recompute", "all"], ["--recompute", "1,3"]],
	"eager-1f1b": [[], ["--recompute", "0"]], "auto:effort=0": [[], ["--recompute", "2"]]}
def run(arguments, folder):
	done = subprocess.run([orrery, "simulate", *arguments, "--json", "--trace", f"{folder}/t.json"], capture_output=True, text=True)
	if done.returncode:
		return done.returncode, done.stderr
	report = json.loads(done.stdout)
	name = report.pop("schedule")
	trace = open(f"{folder}/t.json").read().replace(json.dumps(name), '"S"')
	return 0, report, trace
def go_round(case):
	i, model, schedule, extra, workers = case
	folder = f"case{i}"
	os.makedirs(folder + "/again")
	# away from where it was made and with no option repeated
	first = run([*models[model], "-s", schedule, "-m", "8", "-w", workers, *extra, "-o", f"{folder}/plan.json"], folder)
	if first[0]:
		assert first[0] == 2, (case, first)
		return None
	again = run([f"{folder}/plan.json", *(["-o", f"{folder}/again/plan.json"] if i % 8 == 0 else [])], folder + "/again")
	assert first == again, (case, [a for a, b in zip(first, again) if a != b][:1], again[1] if again[0] else "")
	if i % 8 == 0: # a plan of a plan
		assert first == run([f"{folder}/again/plan.json"], folder + "/again"), case
	return schedule.split(":")[0]
# of any length, an order that was searched is replayed alike
cases = [(model, schedule, extra, w) for model in models for schedule in [f"{x}:effort=0" if x == "auto" else x for x in names] + more[model]
	for extra in options.get(schedule, [[]]) for w in ("4", "8") if model == "chain" or w == "4"]
with concurrent.futures.ThreadPoolExecutor(2) as pool:
	ran = [x for x in pool.map(go_round, [(i, *case) for i, case in enumerate(cases)]) if x]
missing = set(names) - set(ran)
assert not missing, missing
print(len(ran), "rounds")
E
python3 run.py
