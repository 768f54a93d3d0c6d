# --on-nan skip ends with exit code 1 and one line when 10 steps in a row, or all of a run, were left out, and the checkpoints from
# before stay; one that falls due at a step that is left out waits for the next that is not.
needs_training
# fail OPTION...: exit code 1, one line, nothing on standard output
fail() {
	code=0
	"$orrery" train "$@" --on-nan skip >out 2>err || code=$?
	[ $code -eq 1 ] && [ ! -s out ] && [ "$(grep -c '^orrery: ' err)" -eq 1 ] || { cat err; exit 1; }
}

for schedule in 1f1b ddp; do
	rm -rf ck
	fail "$source/graphs/deep.dot" -w 2 --schedule $schedule --lr 3 --optimizer momentum --steps 40 --checkpoint ck --every 1
	grep -q '^orrery: training diverged: the updates of steps 5 to 14, 10 in a row, were left out, ' err
	grep -q '; the last checkpoint is of step 4' err
	[ "$(echo ck/step-*)" = "ck/step-00000002 ck/step-00000003 ck/step-00000004" ]
done

awk -F, -v OFS=, 'NR > 1 { $3 = "3e38" } 1' "$source/graphs/data/digits.csv" >all.csv
fail "$source/graphs/digits.dot" -w 2 --data all.csv --steps 5 --checkpoint none --every 2
grep -q '^orrery: training diverged: the updates of all steps, 5, were left out, ' err
[ -z "$(find none -name 'step-*')" ]

# one wild number: that step is left out, and has no checkpoint, but the next one has
awk -F, -v OFS=, 'NR == 103 { $3 = "3e38" } 1' "$source/graphs/data/digits.csv" >one.csv
"$orrery" train "$source/graphs/digits.dot" -w 2 --data one.csv --steps 60 --on-nan skip --loss losses.csv --checkpoint ok \
	--every 1 --keep 0 >out 2>err
for step in $(seq 60); do
	code=0
	grep -q "^$step," losses.csv || code=$?
	if [ $code -eq 0 ] || [ "$step" -eq 60 ]; then
		[ -d "ok/step-$(printf %08d "$step")" ]
	else
		[ ! -e "ok/step-$(printf %08d "$step")" ]
	fi
done
[ "$(grep -c '^[0-9]' losses.csv)" -lt 60 ]
