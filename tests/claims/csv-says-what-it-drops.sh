# Exporting a CSV that drops meaning says so in one line on standard error; --strict-csv refuses it; what is not said to be lost comes back.
says() { # PHRASE ARGUMENT...
	phrase=$1
	shift
	$orrery simulate "$@" --csv lost.csv >report 2>said
	[ "$(wc -l <said)" -eq 1 ]
	grep -q "lost.csv does not say.*$phrase.*simulate -o FILE.json" said
	rm lost.csv lost.stages.json
	code=0
	$orrery simulate "$@" --csv lost.csv --strict-csv >report 2>said || code=$?
	[ $code -eq 2 ]
	[ "$(wc -l <said)" -eq 1 ]
	grep -q "$phrase" said
	[ ! -e lost.csv ]
	[ ! -e lost.stages.json ]
}
says 'recomputation of 4 stages' chain:4 --schedule 1f1b-r
says 'recomputation of 1 stage' chain:4 --recompute 2
says 'never flushes' chain:4 --schedule pipedream
says 'graph of the stages' towers:1,1/2
says '4 stages have several workers' chain:4 -w 2 --schedule ddp
says 'owns the parameters of 4 stages' chain:4 -w 2 --schedule fsdp
says 'several workers' chain:4 --schedule chimera
says 'order is greedy' chain:8 -w 4 --schedule hanayo
echo 'graph { bandwidth="1GB/s"; duplex=half; a [repeat=4] }' >half.dot
says 'which transfer goes first' chain:8 --machine half.dot -m 8 --costs 1,1,1 --schedule interleaved-uniform --activation 1GB
# nothing lost, nothing said, and it comes back
n=0
for schedule in gpipe 1f1b eager-1f1b interleaved zb-h1 zb-2p v-half v-zb v-min dualpipe-v interleaved-uniform auto:effort=0; do
	for links in '' '--latency 0.3 --activation 1GB --bandwidth 3GB/s'; do
		$orrery simulate chain:8 --costs 1,1,1 -w 4 -m 8 $links --schedule $schedule --csv kept.csv --strict-csv --json >a 2>said || continue
		[ ! -s said ]
		$orrery simulate chain:8 --costs 1,1,1 $links --schedule kept.csv --json >b
		python3 -c 'import json; a, b = json.load(open("a")), json.load(open("b")); assert a["makespan"] == b["makespan"] and [w["peak_stash"] for w in a["worker"]] == [w["peak_stash"] for w in b["worker"]]'
		n=$((n + 1))
	done
done
[ $n -ge 18 ]
needs_training
$orrery train "$source/graphs/digits.dot" -w 2 --steps 1 --csv ran.csv >report 2>said
grep -q 'ran.csv does not say.*graph of the stages' said
code=0
$orrery train "$source/graphs/digits.dot" -w 2 --steps 1 --csv strict.csv --strict-csv >report 2>said || code=$?
[ $code -eq 2 ]
[ ! -e strict.csv ]
if grep -q 'step 1' said; then exit 1; fi
