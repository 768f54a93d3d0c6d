#!/bin/sh
# plan and profile as a person meets them: what is wrong gives one line and exit code 2, and a plan goes through
# simulate and train as it is. Usage: test_plan_command.sh ORRERY SOURCE CAN_TRAIN
orrery=$(realpath "$1") source=$(realpath "$2") can_train=$3
. "$source/tests/command.sh"
cd "$work" || exit 1
cat >profile.txt <<END
node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, parameter_size=0.0
node2 -- Linear -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=1000.0, parameter_size=4000.0
node3 -- Linear -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=1000.0, parameter_size=4000.0
	node1 -- node2
	node2 -- node3
END
sed 's/node2 -- node3$/&\n\tnode3 -- node2/' profile.txt >cycle.txt
sed 's/forward_compute_time=2.000, //' profile.txt >missing.txt

accept 'Slowest stage: 3 ms' plan profile.txt --workers 3 -o plan.json
accept '"slowest_stage"' plan profile.txt --workers 3 --json
accept 'makespan' simulate plan.json
accept 'makespan' simulate profile.txt --schedule plan.json
# its stages and their replicas, 2-1, under another schedule
accept 'steady       6 ms for 2 microbatches' simulate plan.json --schedule pipedream -m 8
accept '"replicas": 2' simulate plan.json --schedule pipedream --sync vertical --json
refuse 'replicas lists 1 stages and there are 2' simulate plan.json --schedule pipedream:replicas=3
refuse 'a cycle' plan cycle.txt --workers 2
refuse 'a cycle' plan cycle.txt --workers 2
refuse 'missing.txt:2: no operator' plan missing.txt --workers 2
refuse 'no --workers' plan profile.txt
refuse '--workers: 0' plan profile.txt --workers 0
refuse '2 levels: give as many links' plan profile.txt --workers 2x2 --link 1GB/s
refuse 'no plan fits --memory 1kB' plan profile.txt --workers 2 --memory 1kB
# a plan's links go with it
"$orrery" plan profile.txt --workers 2x2 --link 100MB/s,1kB/s --json -o levels.json >levels.txt
"$orrery" simulate levels.json --json >simulated.txt
grep -q '"levels"' levels.json && [ "$(grep '"makespan"' levels.txt | head -1)" = "$(grep '"makespan"' simulated.txt)" ] &&
	pass || fail "simulate does not find the plan's makespan: $(grep '"makespan"' levels.txt simulated.txt)"
# and a machine's, which it says: each way of 2 x 1.5 s in turn, and at once
for duplex in half full; do
	echo "graph { bandwidth=\"1GB/s\"; duplex=$duplex; w [repeat=2] }" >$duplex.dot
	"$orrery" plan chain:2 --costs 1s,1s --activation 1.5GB --straight -m 8 --machine $duplex.dot --json -o $duplex.json >planned.txt
	"$orrery" simulate $duplex.json --json >simulated.txt
	[ "$(grep '"makespan"' planned.txt | head -1)" = "$(grep '"makespan"' simulated.txt)" ] && pass ||
		fail "$duplex duplex: $(grep '"makespan"' planned.txt simulated.txt)"
done
grep -q '"slowest_stage": 3.0' half.json && grep -q '"slowest_stage": 2.0' full.json && pass || fail "$(grep slowest *.json)"
accept 'half.dot, half-duplex links: w0-1' simulate half.json
accept 'full.dot, links: w0-1' simulate full.json
cat >eight.dot <<END
digraph { node [forward=4 backward=6]; a; b; c; d; node [forward=8 backward=12]; e; f; g; h;
a -> b -> c -> d -> e -> f -> g -> h }
END
accept 'Busiest worker: 30 a microbatch' plan eight.dot --workers 4 -m 16 --straight -o pieces.json
accept 'makespan' simulate pieces.json
accept '"schedule": "search"' plan eight.dot --workers 4 -m 4 --straight --search --json
# what a period takes less of, the simulator takes less of
accept '  T 12       2 in flight, at most 40 MB of stashes on a worker' plan chain:6 --costs 1,2 --stash 10MB --workers 3 -m 12 \
	--straight -o periods.json
accept ' 3 (60 MB)' simulate periods.json --schedule 1f1b-star
accept ' 2 (40 MB)' simulate periods.json --schedule 1f1b-star:T=12
grep -qF ' 3 (60 MB)' out && fail "1f1b-star:T=12 holds as much as with the smallest period: $(cat out)"
refuse 'give --straight' plan profile.txt --workers 3 --contiguous --search
accept 'Sought: the shortest step' plan profile.txt --workers 3 --search
accept 'Sought: the best throughput' plan profile.txt --workers 3
# why replicas, and what gives a pipeline
accept 'links are free, so replicas cost nothing: --bandwidth=10GB/s, say' plan profile.txt --workers 2
accept '"links are free, so replicas cost nothing: --bandwidth=10GB/s' plan profile.txt --workers 2 --json
for way in --straight --bandwidth=1GB/s; do
	"$orrery" plan profile.txt --workers 2 $way >out
	grep -q '^Slowest stage' out && ! grep -q 'links are free' out && pass || fail "plan $way: $(cat out)"
done
# why three stages on two workers, and what prices them
for overhead in '' 'overhead="2ms";'; do
	echo "digraph g { $overhead a [forward=\"1ms\"]; b [forward=\"4ms\"]; c [forward=\"3ms\"]; a -> b -> c }" >three.dot
	[ -n "$overhead" ] || accept 'starting a job costs nothing here, so neither do 3 stages on 2 workers' plan three.dot --workers 2 -m 8 --straight
	[ -z "$overhead" ] || accept '  2 stages' plan three.dot --workers 2 -m 8 --straight
done
refuse '--stages is nothing for a plan' plan profile.txt --workers 3 --stages 2
refuse '--schedule is nothing for a plan' plan profile.txt --workers 3 --schedule gpipe
refuse '--sync is nothing for a plan' plan profile.txt --workers 3 --sync none
for command in plan profile; do # --help has no option that is refused
	"$orrery" $command --help >help.txt
	[ $command = plan ] && more= || more='|latency|bandwidth|link[^s]'
	grep -qE -- "^ +(-., )?--(schedule|stages|recompute|sync|accumulate$more)" help.txt && fail "$command --help: $(cat help.txt)" || pass
done
"$orrery" plan chain:7 --workers 4 -m 5 --straight --stash 1MB --memory 3MB --costs 3,2,1 --search=2 >searched.txt 2>progress.txt
grep -q 'Searched' searched.txt && grep -qE '^search: best so far [0-9.]+, none below [0-9.]+$' progress.txt && pass ||
	fail "--search=2 shows no progress: $(cat searched.txt progress.txt)"
refuse '--search: 0' plan profile.txt --workers 3 --search=0
refuse 'nothing to compute' profile chain:4
sed 's/forward_compute_time=1/forward_compute_time=3/' profile.txt >new.txt && mv new.txt profile.txt
refuse 'changed since' simulate plan.json
refuse 'none.json: cannot open it: No such file' simulate none.json
echo '{' >broken.json
refuse 'broken.json:' simulate broken.json

# costs from outside travel with the plan
accept 'step 40' plan towers:3,3/2 --costs 1,1 --workers 8 --straight -m 16 -o study.json
accept '40' simulate study.json
tr -d '\n' <study.json | sed 's/"7F0", *"7B0"/"7B0","7F0"/' >edited.json
refuse '7B0' simulate edited.json

if [ "$can_train" = yes ]; then
	accept 'fc3' profile "$source/graphs/digits.dot" -o digits.dot --batch 64 -m 4
	grep -q 'overhead=' digits.dot && grep -q 'update=' digits.dot && pass || fail 'a profile without overhead or updates'
	# what it was made for goes along, and is compared with what it is taken for
	grep -q '^	profiled="cpu, fp32";$' digits.dot && pass || fail 'a profile that does not say what for'
	accept 'Profiled for cpu, bf16' profile "$source/graphs/digits.dot" -o half.dot --device cpu --precision bf16 -m 4
	accept 'Profiled for cpu, fp32' profile "$source/graphs/digits.dot" --device auto --precision tf32
	refuse "--device: no 'gpu' (did you mean cuda?)" profile "$source/graphs/digits.dot" --device gpu
	CUDA_VISIBLE_DEVICES='' refuse '--device cuda: no device' profile "$source/graphs/digits.dot" --device cuda
	refuse 'a CPU core has none' profile "$source/graphs/digits.dot" --device cpu --streams 2
	sed 's/profiled="cpu, fp32"/profiled="cuda, bf16"/' digits.dot >device.dot
	accept 'profiled: cuda, bf16' show device.dot
	accept '"profiled": "cuda, bf16"' show device.dot --json
	accept 'profiled cuda, bf16' plan device.dot --workers 2 -m 4 --unpin --precision bf16 -o device.json
	accept '"profiled": "cuda, bf16"' plan device.dot --workers 2 -m 4 --unpin --precision bf16 --json
	accept 'profiled     cuda, bf16' simulate device.json
	accept '"profiled": "cuda, bf16"' simulate device.json --json
	told() { # told LINES COMMAND...: it succeeds, with so many notes that the profile is of something else
		want=$1
		shift
		"$orrery" "$@" >out.txt 2>err.txt && [ "$(grep -c '^orrery: .*: its costs were profiled for ' err.txt)" -eq "$want" ] &&
			pass || fail "$*: $(cat err.txt)"
	}
	told 0 plan device.dot --workers 2 -m 4 --unpin --precision bf16
	told 1 plan device.dot --workers 2 -m 4 --unpin
	grep -q 'profiled for cuda, bf16, and not for cuda, fp32: profile it again with --device cuda --precision fp32$' err.txt &&
		pass || fail "plan: $(cat err.txt)"
	told 1 train device.json --device cpu --data "$source/graphs/data/digits.csv" --steps 1
	grep -q 'not for cpu, bf16: profile it again with --device cpu --precision bf16$' err.txt && pass || fail "train: $(cat err.txt)"
	told 0 train half.dot --device cpu --precision bf16 --steps 1 --data "$source/graphs/data/digits.csv"
	told 1 train half.dot --device cpu --steps 1 --data "$source/graphs/data/digits.csv"
	told 0 train digits.dot --device cpu --precision tf32 --steps 1 --data "$source/graphs/data/digits.csv"
	refuse 'measured with 16 samples in a microbatch, and --batch 64 has 8 in each of 8' plan digits.dot --workers 2 --batch 64 -m 8
	accept '"samples": 16,' plan digits.dot --workers 2 -m 8 --json # and the minibatch grows
	# where stages go depends on what was measured: what follows holds of any plan
	accept 'Sought: the shortest step' plan digits.dot --workers 2 --batch 64 -m 4 --makespan -o pinned.json
	accept 'Slowest stage' plan digits.dot --workers 2 --batch 64 -m 4 --contiguous --unpin -o digits.json
	data=$source/graphs/data/digits.csv
	refuse "$data is not in the folder of the graph" train digits.json --steps 20
	accept 'Test loss' train digits.json --data "$data" --steps 20
	# workers with several stages, in an order that was searched, train as they are
	"$orrery" plan digits.dot --workers 2 --batch 64 -m 4 --straight --unpin --search -o pieces.json >pieces.txt ||
		fail "plan --search: $(cat pieces.txt)"
	accept 'Test loss' train pieces.json --data "$data" --steps 20
	# without a flush; every task says which version it found
	accept 'passes that read another version than they must: 0' train digits.json --data "$data" --schedule pipedream --steps 20
else
	refuse 'StarPU' profile "$source/graphs/digits.dot"
fi

finish
