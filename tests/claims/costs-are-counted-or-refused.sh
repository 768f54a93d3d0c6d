# Durations and bytes are those that operators, batch and machine make, or too many to be counted, which is said; never
# what is left of them in 64 bits.
cat >model.dot <<'END'
digraph g {
	x [op=input columns="0:4000"]
	y [op=input columns="4000"]
	a [op=linear features=6000]
	r [op=relu]
	fc [op=linear features=10]
	loss [op=softmax_cross_entropy]
	x -> a -> r -> fc -> loss
	y -> loss
}
END
for batch in 96 1048576 1073741824; do
	for flops in 1 10 100 1e4 1e6 1e10 1e15; do
		for stages in 1 4; do
			code=0
			"$orrery" simulate model.dot --stages $stages --flops $flops --batch $batch -m 1 --json >out 2>err || code=$?
			python3 - $batch $flops $code <<'END'
import json, sys
batch, flops, code = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
forward = 2 * (4000 * 6000 + 6000 * 10) * batch / flops  # of the products alone, in seconds
stash = 4 * (4000 + 6000) * batch
if code:
    message = open('err').read()
    assert code == 2 and message.count('\n') == 1, message
    assert 'more than' in message and ('node a' in message or 'stage' in message), message
    assert 3 * forward > 1e8 or 10 * stash > 1e17, message  # not without need
else:
    figures = json.load(open('out'))
    assert figures['makespan'] >= 3 * forward * (1 - 1e-6) - 1e-6, figures['makespan']
    assert sum(w['peak_stash_bytes'] for w in figures['worker']) >= stash, figures
END
		done
	done
done
# the planner adds up as well
code=0
"$orrery" plan model.dot -w 2 --flops 1 --batch 1073741824 -m 1 >out 2>err || code=$?
[ $code -eq 2 ]
grep -q 'model.dot:4: node a: of 1073741824 samples in a microbatch, the forward passes last more' err
printf 'digraph g { overhead="5e9s"; node [forward="1ms" backward="2ms"]; a -> b -> c }\n' >overhead.dot
for command in 'simulate overhead.dot' 'plan overhead.dot -w 2'; do
	code=0
	"$orrery" $command >out 2>err || code=$?
	[ $code -eq 2 ]
	grep -q 'overhead.dot: overhead: ' err
done
# Bytes are counted by what moves: replicas exchange parameters once a step, and only a job that runs on another worker than
# their owner's fetches them. So 256B parameters in fp32 on 1,024 workers are no overflow, nor are 16 GB a stage on 4,096.
for case in '1024 64 64' '1024 64 1000' '4096 256 16'; do
	set -- $case
	"$orrery" simulate chain:16 -w $1 -m $1 --costs 1ms,2ms --parameters $3GB --activation 1MB --bandwidth 25GB/s \
		--schedule lpp:G=$2,R=16 --json >out
	python3 - $1 $2 $3 <<'END2'
import json, sys
workers, replicas, gigabytes = map(int, sys.argv[1:])
moved = sum(w['all_reduce_bytes'] for w in json.load(open('out'))['worker'])
assert moved == workers * 2 * (replicas - 1) * gigabytes * 10**9 // replicas, moved
END2
done
# a job that fetches: F and B of each microbatch on 3 of 4 workers; what B sends back has the size of what it fetched
"$orrery" simulate chain:4 -w 4 -m 4000 --schedule fsdp --parameters 10TB --json >out
python3 - <<'END'
import json
workers = json.load(open('out'))['worker']
assert sum(w['recv_parameter_bytes'] for w in workers) == 4000 * 4 * 2 * 3 * 10**13 // 4, workers
assert sum(w['sent_weight_gradient_bytes'] for w in workers) == 4000 * 4 * 3 * 10**13 // 4, workers
END
