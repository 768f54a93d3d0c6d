#!/bin/sh
# The command as a person meets it: every wrong input gives one line that names the place and the cure, and
# exit code 2; what the README shows works. Usage: test_command.sh ORRERY SOURCE PLUGINS CAN_TRAIN
orrery=$(realpath "$1") source=$(realpath "$2") plugins=$3 can_train=$4
. "$source/tests/command.sh"

write() { cat >"$work/$1"; }

cd "$source" || exit 1

# --- options ---
refuse "no command 'trian'" trian
refuse "'--foo' is no option" simulate chain:4 --foo
refuse "'--foo' is no option" simulate chain:4 --foo -w 4 -m 8 --csv x.csv
refuse "'--json=3' is no option" simulate chain:4 --json=3 -w 4
refuse "'--svg'" simulate chain:4 --svg
refuse 'no GRAPH' simulate
refuse "'chain:5' is a second one" simulate chain:4 chain:5
refuse '-m: 0 is out of range' simulate chain:4 -m 0
refuse '--workers: 0 is out of range' simulate chain:4 -w 0
refuse '--workers: ' simulate chain:4 -w two
refuse '--costs: -2 is negative' simulate chain:4 --costs 1,-2
refuse 'mixes plain numbers and units' simulate chain:4 --costs 1ms,2
refuse 'write F,B or F,B,W' simulate chain:4 --costs 1
refuse '1x is no size' simulate chain:4 --memory 1x
refuse 'has 1 GB: take more workers' simulate chain:4 --stash 1GB --memory 1GB
refuse "no schedule '1f2b'" simulate chain:4 --schedule 1f2b
refuse 'schedule lpp: G is there twice' simulate chain:8 -w 6 --schedule lpp:G=2,G=3
refuse 'set --workers 8' simulate chain:8 -w 6 --schedule lpp:G=2,R=4
refuse 'give --stages 4 or fewer' simulate chain:4 --stages 5
refuse "'0,4': give all, none, or stages from 0 to 3" simulate chain:4 --recompute 0,4
refuse "--jitter: 'foo': write lognormal:SIGMA, uniform:WIDTH or normal:SIGMA, such as lognormal:0.2" simulate chain:4 --jitter foo
refuse '--jitter: -0.2 is out of range: say 0 to 2' simulate chain:4 --jitter lognormal:-0.2
refuse '--samples: 0 is out of range' simulate chain:4 --jitter uniform:0.1 --samples 0
refuse '--samples: of noise, and there is none: give --jitter lognormal:0.2, or leave it out' simulate chain:4 --samples 5
refuse '--rank: by a figure of noise, and there is none: give --jitter lognormal:0.2, or leave it out' compare chain:4 --rank p95
refuse "--rank: no 'p96'" compare chain:4 --jitter uniform:0.1 --rank p96
refuse "--order: no 'lazy': there are strict and greedy" simulate chain:4 --order lazy
refuse 'schedule pipedream never flushes, and its order says which version of the parameters a job reads: leave --order out, or take one that flushes' \
	simulate chain:4 --schedule pipedream --order greedy
refuse '--order is nothing for a plan' plan chain:4 -w 2 --order greedy
refuse '--html: no name of a file: give one' simulate chain:4 --html ''
refuse 'cannot write it' simulate chain:4 --svg "$work/no/such/folder/x.svg"

refuse 'more than can be counted in nanoseconds' simulate chain:3 --latency 9e9
refuse 'more than can be counted' simulate chain:3 --activation 100000TB -m 100
refuse '1024 microbatches of 16 stages, stage 0 the largest, keep and move more than 2305843009213693951 bytes, more than can be counted: take smaller sizes or fewer of them' \
	simulate chain:16 -w 1024 -m 1024 --schedule lpp:G=64,R=16 --parameters 400TB
refuse 'keep and move more than' simulate chain:4 -m 100000 --schedule fsdp --parameters 10TB # each job fetches them
refuse '--latency has no unit, and the durations of chain:3 have' simulate chain:3 --costs 1ms,2ms --latency 5
refuse '--latency has a unit, and the durations of chain:3 have none' simulate chain:3 --latency 5us
refuse 'no GRAPH' show
refuse "'--foo' is no option" show --foo chain:2
if [ -e "$work/no.svg" ]; then fail 'no.svg is there already'; fi
refuse "no schedule 'foo'" simulate chain:2 --schedule foo --svg "$work/no.svg"
if [ -e "$work/no.svg" ]; then fail 'a refusal left no.svg behind'; else pass; fi
accept 'Machine:' simulate --help
accept 'Training:' train --help
accept 'GRAPH' show --help
if "$orrery" schedules >/dev/full 2>"$work/err"; then fail 'a full disk went unnoticed'; else pass; fi

# --- models ---
refuse "$work/missing.dot: cannot open it: No such file" simulate "$work/missing.dot"
write cycle.dot <<'END'
digraph {
	a [forward=1]
	b [forward=1]
	a -> b
	b -> a
}
END
refuse 'cycle.dot:' show "$work/cycle.dot"
write op.dot <<'END'
digraph {
	x [op=input columns="0:4"]
	y [op=softmin]
	x -> y
}
END
refuse 'op.dot:3: node y' show "$work/op.dot"
write attribute.dot <<'END'
digraph {
	x [op=input columns="0:4"]
	y [op=linear width=3 depth=2]
	x -> y
}
END
refuse 'attribute.dot:3: node y' show "$work/attribute.dot"
write dropout.dot <<'END'
digraph {
	x [op=input columns="0:4"]
	t [op=input columns="4:8"]
	y [op=dropout rate=0]
	l [op=mse]
	x -> y -> l
	t -> l
}
END
accept 'dropout' show "$work/dropout.dot"
write unit.dot <<'END'
digraph {
	a [forward="3parsec"]
}
END
refuse 'unit.dot:2: node a: forward' show "$work/unit.dot"
write negative.dot <<'END'
digraph {
	a [forward="-1ms"]
}
END
refuse 'negative.dot:2: node a: forward' show "$work/negative.dot"
write shapes.dot <<'END'
digraph {
	a [op=input columns="0:4"]
	b [op=input columns="4:7"]
	c [op=add]
	l [op=mse]
	a -> c
	b -> c
	c -> l
	a -> l
}
END
refuse 'shapes.dot:4: node c' show "$work/shapes.dot"
write pins.dot <<'END'
digraph {
	a [forward=1 stage=0]
	b [forward=1 stage=1]
	c [forward=1 stage=0]
	a -> b -> c
}
END
refuse 'pins.dot:4: node c: stage=0 reads node b of stage=1' simulate "$work/pins.dot"
write gap.dot <<'END'
digraph {
	a [forward=1 stage=0]
	b [forward=1 stage=2]
	a -> b
}
END
refuse 'no node is pinned to stage=1' simulate "$work/gap.dot"
write half.dot <<'END'
digraph {
	a [forward=1 stage=0]
	b [forward=1]
	a -> b
}
END
refuse 'half.dot:3: node b: no stage' simulate "$work/half.dot"
write syntax.dot <<'END'
digraph {
	a [forward=1
	b -> a
}
END
refuse 'syntax.dot:' show "$work/syntax.dot"

# --- plug-ins ---
accept 'makespan     40 units' simulate towers:3,3/2 -m 16 --schedule "$plugins/plugin_mine.so"
accept 'steady       2 units for 1 microbatch' simulate chain:4 --schedule "$plugins/plugin_pipedream.so"
refuse 'replicas lists 2 stages and there are 4' simulate chain:4 --schedule "$plugins/plugin_pipedream.so:replicas=1-1"
refuse 'is placed on worker' simulate chain:4 --schedule "$plugins/plugin_bad1.so"
refuse 'have the same priority' simulate chain:4 --schedule "$plugins/plugin_bad2.so"
refuse 'deadlocks' simulate chain:4 --schedule "$plugins/plugin_bad3.so"
refuse 'compile it again' simulate chain:4 --schedule "$plugins/plugin_bad4.so"
refuse 'no symbol orr_plugin' simulate chain:4 --schedule "$plugins/plugin_bad5.so"
refuse 'does not say why' simulate chain:4 --schedule "$plugins/plugin_bad6.so"
(ulimit -c 0; exec "$orrery" simulate chain:4 --schedule "$plugins/plugin_bad7.so") >"$work/out" 2>"$work/err"
if [ $? -eq 134 ] && grep -q '^orrery: crashed with the plug-in' "$work/err"; then
	pass
else
	fail "a plug-in that crashes: $(cat "$work/err")"
fi
refuse 'missing.so: cannot open it: No such file' simulate chain:4 --schedule ./missing.so

# --- schedules as CSV ---
accept 'makespan     27 units' simulate chain:4 --costs 1,2 -m 6 --csv "$work/one.csv"
accept 'one.csv: 4 stages on 4 workers, 6 microbatches' simulate chain:4 --costs 1,2 --schedule "$work/one.csv" \
	--csv "$work/again.csv"
if cmp -s "$work/one.csv" "$work/again.csv"; then pass; else fail 'a schedule written again is another one'; fi
refuse 'give --workers 4' simulate chain:4 --schedule "$work/one.csv" --workers 2
refuse 'give -m 6' simulate chain:4 --schedule "$work/one.csv" -m 8
refuse 'one.csv:4:4: 3F0: stage 3' simulate chain:3 --schedule "$work/one.csv"
refuse 'missing.csv: cannot open it: No such file' simulate chain:4 --schedule "$work/missing.csv"
printf '0F0,0B0\n1F0,1B0,1X0\n' >"$work/wrong.csv"
refuse "wrong.csv:2:3: '1X0'" simulate chain:2 --schedule "$work/wrong.csv"
printf '0B0,0F0\n' >"$work/stuck.csv"
refuse 'deadlocks' simulate chain:1 --schedule "$work/stuck.csv"

# --- side by side ---
accept 'zb-h1' compare chain:8 -m 16 --costs 1,1,1 --svg "$work/compare.svg"
if grep -q '</svg>' "$work/compare.svg"; then pass; else fail 'compare.svg is no SVG'; fi
accept '"schedules"' compare towers:3,3/2 -m 16 --json
accept 'span         45 units, sought in place of the makespan; no order on these workers within the limits of auto has a shorter one' \
	simulate chain:4 -m 15 --costs 1,1,1 --schedule auto:memory=8,objective=span
accept '"span_lower_bound": 45.0' simulate chain:4 -m 15 --costs 1,1,1 --schedule auto:memory=8,objective=span --json
accept 'one.csv' compare chain:4 -m 6 --schedule "$work/one.csv"
accept 'These do not fit' compare chain:4 --stash 1GB --memory 3GB
accept '4 or 8 stages on 4 workers' compare chain:19 -w 4 -m 8 --plan
accept '16 microbatches' compare chain:8 -w 4 -m 8,16 --stages 4,8 --csv "$work/rows.csv"
if [ "$(head -n 1 "$work/rows.csv" | tr ',' '\n' | wc -l)" -eq 17 ] && grep -q '^"1f1b",4,4,16,,' "$work/rows.csv"; then
	pass
else
	fail "rows.csv: $(head -n 2 "$work/rows.csv")"
fi
accept '"lpp:order=breadth"' compare chain:8 -w 4 --schedule lpp:order=breadth --json
refuse '--svg draws one number of microbatches' compare chain:4 -m 8,16 --svg "$work/several.svg"
refuse '-m: x is no whole number' compare chain:4 -m 8,x
refuse '--svg draws one number of microbatches and one memory' compare chain:4 --memory 1GB,2GB --svg "$work/several.svg"
refuse '-m: value 3 is value 1 again: leave one of them out' compare chain:4 -m 8,16,8
refuse '--memory: value 2 is value 1 again' compare chain:4 --memory 1GB,1000MB
refuse '--memory: 16 has no unit: say 16GB, or 16B' compare chain:4 --memory 8GB,16
refuse '--memory: at most 16 values' compare chain:4 --memory 1GB,2GB,3GB,4GB,5GB,6GB,7GB,8GB,9GB,10GB,11GB,12GB,13GB,14GB,15GB,16GB,17GB
refuse '-m 8,16: lists are for `orrery compare`, which shows all values side by side: give one' simulate chain:4 -m 8,16
refuse '--stages 2,4: lists are for `orrery compare`' train chain:4 --stages 2,4
refuse '--memory 8GB,16GB: lists are for `orrery compare`' plan chain:4 -w 2 --memory 8GB,16GB
refuse 'give --stages 4 or fewer' compare chain:4 --stages 2,5
refuse 'no GRAPH' compare

# --- without a flush ---
accept 'steady       3 units for 1 microbatch' simulate chain:4 --schedule pipedream --costs 1,2 -m 4
accept '"staleness"' simulate chain:2 --workers 3 --schedule pipedream:replicas=2-1 --sync vertical --json
accept '"versions": 2' simulate chain:4 --schedule pipedream --accumulate 4 --json
# a flush costs (P-1)(F+B) a step: 21/4, 33/8 and 57/16 a microbatch; without it 3
for row in '4 5.25' '8 4.125' '16 3.5625'; do
	accept '"per_microbatch": 3.0' compare chain:4 -m "${row% *}" --costs 1,2 --json
	accept "\"per_microbatch\": ${row#* }" compare chain:4 -m "${row% *}" --costs 1,2 --json
done
refuse '--sync: schedule 1f1b flushes after every step' simulate chain:4 --sync vertical
refuse "--sync: 'vert' (did you mean vertical?): give stashing, vertical or none" simulate chain:4 --schedule pipedream --sync vert
refuse 'stage 0 updates every 3 microbatches' simulate chain:4 --schedule pipedream --accumulate 3
refuse 'replicas: 0 is out of range' simulate chain:4 --schedule pipedream:replicas=1-0

# --- what the README shows ---
accept '40' simulate towers:3,3/2 -m 16 --schedule 1f1b --svg "$work/towers.svg"
if grep -q '</svg>' "$work/towers.svg"; then pass; else fail 'towers.svg is no SVG'; fi
accept '"makespan": 69.0' simulate chain:8 -m 16 --schedule 1f1b --costs 1,2 --json
accept 'encoder' show graphs/digits.dot
accept '"makespan": 92.0' simulate chain:8 -m 16 --schedule 1f1b --costs 1,2 --recompute all --json
accept 'makespan' simulate graphs/digits.dot -m 4 --trace "$work/trace.json"
accept '1f1b' schedules
accept 'makespan' simulate graphs/skip.dot

# --- training ---
if [ "$can_train" = yes ]; then
	refuse 'nothing to compute' train chain:4
	refuse 'less than a sample for each' train graphs/digits.dot -m 97
	refuse 'cannot open it' train graphs/digits.dot --data "$work/missing.csv"
	refuse 'take more workers' train graphs/digits.dot --memory 1kB
	refuse 'give one of them' train graphs/digits.dot --steps 1 --epochs 1
	refuse "no 'gpu'" train graphs/digits.dot --device gpu
	refuse "no 'fp16': there are fp32, tf32 and bf16" train graphs/digits.dot --precision fp16
	refuse '--streams: 0 is out of range' train graphs/digits.dot --streams 0
	refuse "no 'sdg' (did you mean sgd?): there are adamw, adam, momentum, sgd and none" train graphs/digits.dot --optimizer sdg
	refuse 'sgd has none: leave it out, or take --optimizer momentum' train graphs/digits.dot --optimizer sgd --momentum 0.5
	refuse '--streams 2: a CPU core has none' train graphs/digits.dot --device cpu --streams 2
	printf '1,2,3\n4,5\n' >"$work/short.csv"
	refuse 'short.csv:2' train graphs/digits.dot --data "$work/short.csv"
	printf '1,2,3\n4,five,6\n' >"$work/word.csv"
	refuse 'word.csv:2: column 2: no number' train graphs/digits.dot --data "$work/word.csv"
	printf '1,2,3\n4,5,6\n' >"$work/narrow.csv"
	refuse 'takes column 3, and the data has columns 0 to 2' train graphs/digits.dot --data "$work/narrow.csv"
	STARPU_SCHED=eager accept 'test accuracy' train graphs/digits.dot --steps 5
	accept 'test accuracy' train graphs/digits.dot --epochs 1 --trace "$work/train.json"
	accept '"mapping"' train graphs/digits.dot --steps 3 --device cpu --json
	accept 'test accuracy' train graphs/digits.dot --steps 3 --precision bf16
	accept 'worker 0' train graphs/digits.dot --steps 3 --workers 3 --device cpu
	accept '"predicted_makespan"' train graphs/digits.dot --steps 3 --schedule gpipe --json
	# what is dropped is told apart from what is right, also of several losses that see choices
	accept '% of the choices of experts dropped' train graphs/moe.dot --steps 3
	total=$(sed -n 's/^Test loss .*, test accuracy \([0-9.]*%\), [0-9.]*% of .*/\1/p' "$work/out")
	digits=$(sed -n 's/^  loss: .*, accuracy \([0-9.]*%\)$/\1/p' "$work/out")
	if [ -n "$total" ] && [ "$total" = "$digits" ]; then pass; else fail "accuracy $total of all losses, $digits of the digits"; fi
	if [ "$(grep -c '^  b[01]_balance: .*, dropped [0-9.]*%$' "$work/out")" = 2 ]; then pass; else fail 'no losses that drop'; fi
	accept 'test accuracy' train graphs/digits.dot --steps 3 --schedule "$plugins/plugin_mine.so"
	accept 'makespan' simulate graphs/deep.dot --workers 3 -m 6 --schedule eager-1f1b --csv "$work/plan.csv"
	accept 'test accuracy' train graphs/deep.dot --steps 3 --schedule "$work/plan.csv" --csv "$work/ran.csv"
	if cmp -s "$work/plan.csv" "$work/ran.csv"; then pass; else fail 'what ran is not what the file says'; fi
else
	refuse 'StarPU' train graphs/digits.dot --steps 1
fi

finish
