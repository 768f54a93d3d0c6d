# A plan for the shortest step is no longer than one without replicas or without pieces, and after a search the report's row of it has its step, and no more microbatches are in flight than there are.
step() { $orrery plan "$source/graphs/studies/$1.dot" -m 8 --json --makespan "${@:2}" | python3 -c 'import json, sys; print(json.load(sys.stdin)["makespan"])'; }
for words in 'mmt -w 6' 'clip -w 4' 'dlrm -w 4'; do
	# shellcheck disable=SC2086
	for narrower in --straight --contiguous '--straight --contiguous'; do
		python3 -c "assert $(step $words) <= $(step $words $narrower) * (1 + 1e-9), '$words $narrower'"
	done
done
$orrery plan "towers:2,2/1" -w 2 -m 1 --search --json >plan.json
python3 -c 'import json
plan = json.load(open("plan.json"))
assert plan["in_flight"] <= 1, plan["in_flight"]'
$orrery plan "$source/graphs/studies/clip.dot" -w 4 -m 8 --link 1GB/s --search --json >plan.json 2>said
python3 -c 'import json
plan = json.load(open("plan.json"))
assert plan["pieces"]["makespan"] == plan["makespan"], (plan["pieces"], plan["makespan"])'
