# On machines whose file says duplex=half a step takes what it took when every link was half duplex, and no more on links of full
# duplex, which are what a file means that says nothing: seconds of both (of fsdp since its parameters have places; of
# chimera with rings over two workers that take turns, too).
n=0
while IFS='|' read -r arguments machine half full; do
	for duplex in 'duplex=half;' 'duplex=full;' ''; do
		echo "graph { $duplex $machine }" >machine.dot
		(cd "$source" && "$orrery" simulate $arguments --machine "$OLDPWD/machine.dot" --json) >out.json
		[[ $duplex == *half* ]] && wanted=$half || wanted=$full
		python3 -c 'import json, sys; got = json.load(open("out.json"))["makespan"]; assert got == float(sys.argv[1]), (got, sys.argv)' \
			"$wanted" "$arguments" "$duplex"
		n=$((n + 1))
	done
done <<'END'
graphs/wide_towers.dot -m 8 --schedule fsdp|bandwidth="100GB/s"; a [repeat=4]|0.304753063|0.304501282
graphs/skip.dot -m 16 --schedule chimera|bandwidth="1GB/s"; a [repeat=2]|0.008476672|0.007540056
graphs/studies/dlrm.dot -m 4 --schedule fsdp|bandwidth="12GB/s"; a [repeat=4, memory="16GB"]|0.549466668|0.409699999
graphs/digits.dot -m 16 --schedule fsdp --optimizer none|bandwidth="1GB/s"; a [repeat=2]|0.013603776|0.007734028
graphs/study.dot -m 8 --schedule v-min --costs 5ms,9ms,3ms --parameters 100MB --optimizer sgd|bandwidth="12GB/s"; latency="1ms"; a [repeat=3]|0.383666675|0.380666674
graphs/studies/clip.dot -m 8 --schedule lpp --optimizer none --recompute all|bandwidth="1GB/s"; a [repeat=4]|0.67364|0.64205
graphs/studies/clip.dot -m 8 --schedule lpp|bandwidth="1GB/s"; latency="10us"; a [repeat=4]|0.58734|0.52335
chain:1 -m 2 --schedule ddp --costs 1,1 --parameters 24B|bandwidth="1B/s"; a [repeat=2]|50|26
END
[ $n -eq 24 ]
