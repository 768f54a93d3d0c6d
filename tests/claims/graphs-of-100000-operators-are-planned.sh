# A graph of 100,000 operators whose branches overlap everywhere is planned, and its slowest stage is close to an even share.
awk 'BEGIN {
	srand(3); n = 100000
	print "digraph big {"
	for (i = 0; i < n; i++) {
		printf "o%d [forward=\"%dus\" backward=\"%dus\" activation=\"10kB\"]\n", i, 1 + 99 * rand(), 1 + 99 * rand()
		from = i - 1 - int(40 * rand())
		from = from < 0 ? 0 : from
		if (i) printf "o%d -> o%d\n", from, i
		if (i > 9 && rand() < 0.5 && (other = i - 2 - int(7 * rand())) != from) printf "o%d -> o%d\n", other, i
	}
	print "}"
}' >big.dot
"$orrery" plan big.dot --workers 8 --link 10GB/s -m 8 --straight --json >plan.json
python3 -c 'import json
plan = json.load(open("plan.json"))
assert plan["slowest_stage"] < 1.02 * plan["slowest_stage_bound"], (plan["slowest_stage"], plan["slowest_stage_bound"])'
