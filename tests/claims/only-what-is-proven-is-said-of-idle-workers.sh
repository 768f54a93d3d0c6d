# That idle workers would not make the slowest stage faster is said where it is proven; replicas without a microbatch are
# no such workers.
"$orrery" plan chain:1 --costs 1ms,2ms --workers 16 -m 8 >replicas.txt
grep -q 'too few for 16 replicas: -m 16' replicas.txt
if grep -q 'would not make' replicas.txt; then exit 1; fi

# three stages of 3 s: with a fourth worker nothing is faster
"$orrery" plan chain:3 --costs 1s,2s --workers 4 --straight >proven.txt
grep -q '1 of 4 workers stay idle: using them would not make the slowest stage faster' proven.txt

# too many cuts to try all of them: proven only where no cut at all could be faster
for workers in 20 24 32; do
	"$orrery" plan "$source/graphs/studies/mmt.dot" --workers $workers --straight --json >plan.json
	"$orrery" plan "$source/graphs/studies/mmt.dot" --workers $workers --straight >plan.txt
	python3 - $workers <<'END'
import json, sys
plan, text = json.load(open("plan.json")), open("plan.txt").read()
# the largest operator takes 12 ms, and the workers share 390 ms
least = max(0.012, 0.390 / int(sys.argv[1]))
assert plan["coarse"]
assert plan["slowest_stage_proven"] == (plan["slowest_stage"] < least * 1.000001)
assert plan["slowest_stage_proven"] or "would not make" not in text, text
END
done
