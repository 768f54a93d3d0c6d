# Training goes on without a host that is gone, which is asked again every 10 s: once it is back, the training ends with a
# checkpoint and is started again with it, and --loss has a row of every step. The mpirun here starts one rank, whatever it is told.
needs_training
export orrery
cat >mpirun <<'END'
case "$*" in *b:1*true) [ -e up ]; exit;; *true | *" rm -rf "*) exit 0;; esac
echo "$*" >>starts
n=$(wc -l <starts)
[ $n -gt 1 ] || kill -9 $$
touch up
while [ "$1" != train ]; do shift; done
steps=1000000
[ $n = 2 ] || steps=$(($(ls run | sed -n 's/^step-0*//p' | tail -1) + 5))
exec "$orrery" "$@" --steps $steps
END
"$orrery" supervise --fewer 2 -- sh mpirun --host a:2,b:2 -n 4 x train "$source/graphs/digits.dot" --checkpoint run --loss rows.csv 2>err
cut -d' ' -f7-10 starts | tr '\n' ' ' | grep '^--host a:2,b:2 -n 4 --host a:2 -n 2 --host a:2,b:2 -n 4 $'
grep '^orrery: host b is back: the training is started again$' err
awk -F, 'NR > 1 && $1 != NR - 1 { exit 1 } END { exit NR < 20 }' rows.csv
