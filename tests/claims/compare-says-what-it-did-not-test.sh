# compare says beside a schedule that its all-reduce took no time, and fails where nothing fits.
"$orrery" compare chain:4 >out
grep -q '^. ddp .* all-reduce$' out
grep -q '^not tested: all-reduce' out
if grep -q '^. 1f1b .* all-reduce' out; then exit 1; fi
"$orrery" compare chain:4 --parameters 1GB --activation 1MB --bandwidth 1GB/s --costs 10ms,20ms >out
if grep -q 'not tested' out; then exit 1; fi
"$orrery" compare chain:4 --memory 16GB >out
grep -q 'not tested: memory.*(no operator has a size)' out
code=0
"$orrery" compare chain:4 --stash 1GB --memory 1MB >out 2>err || code=$?
[ $code -eq 2 ]
[ "$(wc -l <err)" -eq 1 ]
grep -q 'no schedule fits.*worker 0 needs' err
