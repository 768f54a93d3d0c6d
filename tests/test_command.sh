#!/bin/sh
# The command as a person meets it: every wrong input gives one line that names the place and the cure, and
# exit code 2; what the README shows works. Usage: test_command.sh ORRERY SOURCE PLUGINS CAN_TRAIN
orrery=$(realpath "$1") source=$(realpath "$2") plugins=$3 can_train=$4
. "$source/tests/command.sh"

write() { cat >"$work/$1"; }

cd "$source" || exit 1

# --- options ---
refuse 'cannot write it' simulate chain:4 --svg "$work/no/such/folder/x.svg"

accept 'lower bound' simulate chain:3 -w 3 -m 9 --schedule ddp --latency 9e9 # nothing moves
refuse 'last more than 2305843009 s together' simulate chain:3 --latency 9e9 --schedule auto
for schedule in 1f1b auto; do # what moves fits the clock, though all that could move would not
	accept 'lower bound' simulate graphs/study.dot --bandwidth 15B/s --schedule $schedule
	refuse 'the transfers of 8 microbatches last more than' simulate graphs/study.dot --bandwidth 0.1B/s --schedule $schedule
done
if [ -e "$work/no.svg" ]; then fail 'no.svg is there already'; fi
refuse "no schedule 'foo'" simulate chain:2 --schedule foo --svg "$work/no.svg"
if [ -e "$work/no.svg" ]; then fail 'a refusal left no.svg behind'; else pass; fi
accept 'Machine:' simulate --help
accept 'Training:' train --help
accept 'GRAPH' show --help
lists() { "$orrery" "$1" --help | grep -q -e " --$2[ =\[]"; }
for option in costs activation stash parameters; do # of a study, which nothing can compute
	if lists train $option || lists profile $option || ! lists plan $option || ! lists simulate $option; then
		fail "--$option is listed by train or profile, which refuse it, or not by plan or simulate"
	else
		pass
	fi
done
if lists plan schedule || lists plan order || lists profile lengths; then fail 'plan or profile lists what it refuses'; else pass; fi
for verb in simulate compare plan train; do
	refuse '--link and --bandwidth are two names of one option: give one' $verb chain:2 -w 2 --link 1GB/s --bandwidth 2GB/s
done
refuse '--init gives the weights that a training begins with, and --resume' train chain:2 --checkpoint "$work/none" --resume --init a.safetensors
if "$orrery" schedules >/dev/full 2>"$work/err"; then fail 'a full disk went unnoticed'; else pass; fi

# --- models ---
refuse "$work/missing.dot: cannot open it: No such file" simulate "$work/missing.dot"
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
refuse 'plugin_bad7.so crashed in compute()' simulate chain:4 --schedule "$plugins/plugin_bad7.so"

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
mkdir "$work/a folder whose name is longer than a column"
cp "$work/one.csv" "$work/a folder whose name is longer than a column"
accept '  ...e is longer than a column/one.csv  ' compare chain:4 -m 6 \
	--schedule "$work/a folder whose name is longer than a column/one.csv" --schedule all
accept 'These do not fit' compare chain:4 --stash 1GB --memory 3GB
accept '4 or 8 stages on 4 workers' compare chain:19 -w 4 -m 8 --plan
accept '16 microbatches' compare chain:8 -w 4 -m 8,16 --stages 4,8 --csv "$work/rows.csv"
if [ "$(head -n 1 "$work/rows.csv" | tr ',' '\n' | wc -l)" -eq 17 ] && grep -q '^"1f1b",4,4,16,,' "$work/rows.csv"; then
	pass
else
	fail "rows.csv: $(head -n 2 "$work/rows.csv")"
fi
accept '"lpp:order=breadth"' compare chain:8 -w 4 --schedule lpp:order=breadth --json
refuse '--svg draws one table' compare chain:4 -m 8,16 --svg "$work/several.svg"
refuse '--svg draws one table: give one value of -m, of --memory, and of each other option' compare chain:4 --memory 1GB,2GB --svg "$work/several.svg"

# --- without a flush ---
accept 'steady       3 units for 1 microbatch' simulate chain:4 --schedule pipedream --costs 1,2 -m 4
accept '"staleness"' simulate chain:2 --workers 3 --schedule pipedream:replicas=2-1 --sync vertical --json
accept '"versions": 2' simulate chain:4 --schedule pipedream --accumulate 4 --json
# a flush costs (P-1)(F+B) a step: 21/4, 33/8 and 57/16 a microbatch; without it 3
for row in '4 5.25' '8 4.125' '16 3.5625'; do
	accept '"per_microbatch": 3.0' compare chain:4 -m "${row% *}" --costs 1,2 --json
	accept "\"per_microbatch\": ${row#* }" compare chain:4 -m "${row% *}" --costs 1,2 --json
done

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
	refuse 'take more workers' train graphs/digits.dot --memory 1kB
	refuse 'cannot open it' train graphs/digits.dot --data "$work/missing.csv"
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
