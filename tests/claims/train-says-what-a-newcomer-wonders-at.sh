# train says how many workers it takes and why where simulate takes others, and that the bubble of jobs of microseconds is
# the engine's.
needs_training
graph=$source/graphs/digits.dot

workers() { "$orrery" "$@" --json 2>err | python3 -c 'import json, sys; print(json.load(sys.stdin)["workers"])'; }

simulated=$(workers simulate "$graph")
trained=$(workers train "$graph" --steps 1)
line="; simulate takes one a stage, $simulated, unless --workers says otherwise."
"$orrery" train "$graph" --steps 1 >out 2>err
if [ "$simulated" -eq "$trained" ]; then
	grep -q "$line" out && exit 1
else
	[ "$(grep -c "^$trained workers*, one a .*$line\$" out)" -eq 1 ]
fi
[ "$(workers train "$graph" --steps 1 -w "$simulated")" -eq "$simulated" ]
"$orrery" train "$graph" --steps 1 -w 2 >out 2>err
grep -q 'simulate takes' out && exit 1 # it was asked for

"$orrery" train "$graph" --steps 5 -w 2 -m 16 --batch 16 >short 2>err
grep -q '^Jobs last .* us (median), .* this bubble is the engine' short
# a job of milliseconds
"$orrery" train "$graph" --steps 1 -w 2 -m 2 --batch 60000 >long 2>err
grep -q '^Measured: ' long
if grep -q '^Jobs last' long; then exit 1; fi
