# Training ends at the first loss or gradient that is not finite, says in which step and of which operator, and keeps the
# checkpoints from before; going on from them ends the same way.
needs_training
train() { "$orrery" train "$source/graphs/digits.dot" --optimizer sgd --lr 1e6 -w 2 "$@"; }

# fail OPTION...: exit code 1, one line about the step, which is left in the file `line`
fail() {
	code=0
	train --steps 60 "$@" >out 2>err || code=$?
	[ $code -eq 1 ] && [ ! -s out ] && [ "$(grep -c '^orrery: ' err)" -eq 1 ] || { cat err; exit 1; }
	grep '^orrery: ' err >line
	grep -qE '^orrery: training diverged in step [0-9]+: .*the norm of the gradient of [a-z]+_fc[0-9] (is|are) not finite: ' line
}

fail --checkpoint kept --every 1 --keep 3 --loss losses.csv --json
step=$(sed -E 's/.*in step ([0-9]+).*/\1/' line)
[ "$step" -gt 1 ]
grep -q "the last checkpoint is of step $((step - 1)), " line
cp line first
[ -d "kept/step-$(printf %08d $((step - 1)))" ]
[ ! -d "kept/step-$(printf %08d "$step")" ]
[ "$(tail -n 1 losses.csv | cut -d, -f1)" = "$step" ] # and its loss is written
python3 - kept <<'END'
import json, math, pathlib, struct, sys
files = list(pathlib.Path(sys.argv[1]).glob('step-*/shard-*'))
assert files
for file in files:
    data = file.read_bytes()
    start = 8 + struct.unpack('<Q', data[:8])[0]
    assert all(map(math.isfinite, struct.unpack('<%df' % ((len(data) - start) // 4), data[start:])))
END
fail --checkpoint kept --every 1 --keep 3 --resume
cmp line first

# whatever the schedule
fail --schedule gpipe
grep -q "in step $step: " line
fail --schedule ddp
grep -q "in step $step: " line
