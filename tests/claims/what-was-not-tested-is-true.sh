# Sizes within a stage are sizes, and links that charge a latency are not free.
"$orrery" plan chain:4 -w 2 --link 1GB/s --activation 100MB >out
grep -qx 'not tested: all-reduce (no operator has parameters)' out
"$orrery" simulate chain:4 -w 2 --schedule ddp --latency 100ms --parameters 1B --costs 1s,1s >out
grep -qx 'not tested: all-reduce (links have a latency alone, no bandwidth)' out
"$orrery" simulate chain:4 -w 2 --schedule ddp --parameters 1B >out
grep -qx 'not tested: all-reduce (links are free)' out
