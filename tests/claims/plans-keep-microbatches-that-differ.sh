# A plan keeps the costs of microbatches that differ: simulated again, it takes as long to the last digit. A search for a
# plan's order knows which passes frozen stages have.
graph=$source/graphs/studies/frozen.dot
printf 'stage,microbatch,pass,duration\n2,0,F,20\n' >costs.csv
makespan() { python3 -c 'import json, sys; print(json.load(sys.stdin)["makespan"])'; }
for differ in '--lengths 512,2048,1024,256,1024,2048' '-m 4 --microbatch-costs costs.csv'; do
	alike=$("$orrery" simulate "$graph" -s gpipe -w 4 -m "$([ "${differ:2:1}" = l ] && echo 6 || echo 4)" --json | makespan)
	"$orrery" simulate "$graph" $differ -s auto:reorder=1 -w 4 --json -o plan.json >json 2>said
	was=$(makespan <json)
	is=$("$orrery" simulate plan.json --json | makespan)
	[ "$is" = "$was" ] && [ "$was" != "$alike" ]
done
python3 -c '
import json
plan = json.load(open("plan.json"))
plan["microbatch_costs"][1]["stages"].pop()
json.dump(plan, open("broken.json", "w"))'
! "$orrery" simulate broken.json 2>said || exit 1
grep -qx 'orrery: broken.json: microbatch_costs: microbatch 1 has not the costs of 4 stages and the sizes of 3 edges: make the plan anew' said
"$orrery" plan "$graph" -w 4 --straight --search=1 >planned
