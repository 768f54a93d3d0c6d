# A thousand workers in equal groups of equal groups: the plan is that of --workers with a level for each, on the file's
# machine. Links are made when they are used, so their memory does not grow with the square of the workers.
printf 'digraph g { node [forward="1ms" backward="2ms" activation="10MB" parameters="400MB" stash="50MB"]; l [repeat=8]; }\n' >g.dot
cat >m.dot <<'END'
graph m { bandwidth="12.5GB/s";
	subgraph cluster_pod { repeat=8; bandwidth="25GB/s";
		subgraph cluster_node { repeat=16; bandwidth="300GB/s"; gpu [repeat=8]; } } }
END
"$orrery" plan g.dot --machine m.dot -m 1024 -o file.json >/dev/null
"$orrery" plan g.dot -w 8x16x8 --link 300GB/s,25GB/s,12.5GB/s -m 1024 -o levels.json >/dev/null
python3 - "$orrery" <<'END'
import json, resource, subprocess, sys
file, levels = (json.load(open(name)) for name in ('file.json', 'levels.json'))
assert file['machine'] == 'm.dot' and len(file['worker']) == 1024
for key in 'stages', 'worker', 'makespan', 'slowest_stage':
    assert file[key] == levels[key], key
subprocess.run([sys.argv[1], 'simulate', 'chain:16000', '-w', '16000', '-m', '8', '--costs', '1ms,2ms', '--activation', '1MB',
                '--bandwidth', '25GB/s', '--json'], check=True, stdout=subprocess.DEVNULL)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
assert peak < 1e9, peak  # a link for each pair took 3.1e9
END
