# The periods at which 1F1B* holds less count no transfer, so a plan says them only where links are free: none is shorter
# than its slowest stage.
set -- chain:2 -w 2 --straight --costs 1s,1s --activation 3GB --stash 1GB
"$orrery" plan "$@" --link 1GB/s >links.txt
grep -q '^Slowest stage: 3 s' links.txt
if grep -q '1F1B\*' links.txt; then exit 1; fi
"$orrery" plan "$@" >free.txt
grep -q '^Slowest stage: 2 s' free.txt
grep -q '^  T 2 s  *2 in flight' free.txt
"$orrery" plan "$@" --link 1GB/s --free-activations >parameters.txt
grep -q '^  T 2 s  *2 in flight' parameters.txt
