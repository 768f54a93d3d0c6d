# A greedy run keeps to the memory of the strict one, is written as a plan and comes back; noise meets both orders with the same draws.
python='import json, sys
a, b = (json.load(open(name)) for name in sys.argv[1:3])
'
n=0
for schedule in gpipe 1f1b eager-1f1b interleaved zb-h1 zb-2p v-half v-zb v-min chimera interleaved-uniform lpp auto hanayo; do
	common="chain:8 --costs 1,1,1 -w 4 -m 8 --stash 10MB --schedule $schedule"
	$orrery simulate $common --order strict --json >strict 2>said || continue
	$orrery simulate $common --order greedy -o greedy.json --json >greedy
	$orrery simulate greedy.json --json >again
	python3 -c "$python"'
assert a["makespan"] == b["makespan"] and a["worker"] == b["worker"]' greedy again
	[ $schedule = hanayo ] || python3 -c "$python"'
for x, y in zip(a["worker"], b["worker"]):
    assert y["peak_stash"] <= x["peak_stash"] and y["peak_stash_bytes"] <= x["peak_stash_bytes"]' strict greedy
	for order in strict greedy; do
		$orrery simulate $common --order $order --jitter lognormal:0.2 --samples 20 --json >noisy.$order
	done
	python3 -c "$python"'
assert a["noise"]["strict"]["p95"] == b["noise"]["strict"]["p95"]
assert a["noise"]["greedy"] == b["noise"]["greedy"] or sys.argv[3] == "hanayo"
assert a["makespan"] == a["noise"]["strict"]["makespan"]
assert b["makespan"] == b["noise"]["greedy"]["makespan"]' noisy.strict noisy.greedy $schedule
	n=$((n + 1))
done
[ $n -ge 12 ]
$orrery compare chain:8 -w 4 -m 8 --jitter lognormal:0.3 --samples 20 --rank greedy-p95 --json >rows
$orrery compare chain:8 -w 4 -m 8 --jitter lognormal:0.3 --samples 20 --csv rows.csv >report
python3 -c '
import csv, json
rows = json.load(open("rows"))
assert rows["noise"] == {"jitter": "lognormal:0.3", "samples": 20, "seed": 1}
times = [row["noise"]["greedy"]["p95"] for row in rows["schedules"] if row["noise"]["greedy"]]
assert times == sorted(times) and len(times) > 20
assert all(not row["noise"]["greedy"] for row in rows["schedules"][len(times):])
table = list(csv.DictReader(open("rows.csv")))
for row in rows["schedules"]:
    mine = [line for line in table if line["schedule"] == row["schedule"]][0]
    assert abs(float(mine["strict_p95"]) - row["noise"]["strict"]["p95"]) < 1e-9
    assert (mine["greedy_worst"] != "") == bool(row["noise"]["greedy"])'
grep -q 'noise: lognormal:0.3, 20 samples, seed 1: of makespans.' report
