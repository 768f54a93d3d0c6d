# That no placement of the operators is better, plan says where it is proven, and else what is known; and what an
# exchange of two operators would better is not what plan stops at.
python3 - >layers.dot <<'END'
times = [76.825, 38.296, 30.155, 29.804, 29.687, 29.527, 29.506, 29.324, 29.261, 29.075, 25.678, 21.167, 20.647, 20.605,
         20.483, 20.436, 20.421, 14.145] + [0.30 + 0.007 * i for i in range(24)]
order = sorted(range(len(times)), key=lambda i: i * 29 % len(times)) # the heavy ones are not neighbours
print("digraph {")
for i, k in enumerate(order):
    print(f'l{i} [forward="{round(times[k] * 1000) // 3}us" backward="{round(times[k] * 1000) - round(times[k] * 1000) // 3}us"];')
    if i:
        print(f"l{i - 1} -> l{i};")
print("}")
END
for workers in 4 5 6 7; do
	"$orrery" plan layers.dot --workers $workers --straight -m 16 -o plan.json >plan.txt
	python3 - $workers <<'END'
import json, sys
plan, text, n = json.load(open("plan.json")), open("plan.txt").read().lower(), int(sys.argv[1])
times = {}
for line in open("layers.dot"):
    if "[" in line:
        name, forward, backward = line.replace('"', " ").replace("us", "").split()[0], *(line.split('"')[1::2])
        times[name] = int(forward[:-2]) + int(backward[:-2])
loads, of = [0] * n, {}
for stage in plan["stages"]:
    for name in stage["operators"]:
        of[name] = stage["workers"][0]
        loads[of[name]] += times[name]
busiest = max(loads)
assert abs(plan["slowest_stage"] * 1e6 - busiest) < 1, (plan["slowest_stage"], busiest)
assert plan["proven"] or not any("no placement" in line and "is better" in line for line in text.splitlines()), text
assert plan["proven"] or "not known" in text, text
assert plan["proven"] == ("no placement of these operators, one worker each, leaves the busiest" in text), text
w = loads.index(busiest)
for a in times: # by a hundredth
    for b in times:
        if of[a] == w and of[b] != w:
            change = times[a] - times[b]
            assert max(loads[w] - change, loads[of[b]] + change) > 0.99 * busiest, (a, b)
END
done
