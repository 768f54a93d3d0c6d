# A pipe, file or folder in the place of a lock, step, manifest or shard gets one line; nothing waits for it.
needs_training
train() { folder=$1; shift; timeout 20 "$orrery" train "$source/graphs/digits.dot" --every 10 --checkpoint $folder "$@"; }

train good --steps 20
for part in manifest.json shard-0.safetensors; do
	for kind in pipe folder; do
		rm -rf run
		cp -a good run
		rm run/step-00000020/$part
		if [ $kind = pipe ]; then mkfifo run/step-00000020/$part; else mkdir run/step-00000020/$part; fi
		train run --steps 15 --resume 2>err
		grep -qx "orrery: run/step-00000020/$part: is a $kind instead of a file: move it away; the one before it is tried" err
		[ $(grep -c '^orrery: ' err) -eq 1 ]
	done
done

mkfifo run/.pipe
mv run/.pipe run/.lock
code=0; train run --steps 30 --resume 2>err || code=$?
[ $code -eq 2 ]
grep -q 'run/.lock: is a pipe instead of a file: move it away' err

rm -rf run
cp -a good run
touch run/step-00000030
train run --steps 40 --resume 2>err
grep -q 'run/step-00000030: is a file instead of a folder: move it away' err
grep -q 'no checkpoint of step 30: .*something that is no checkpoint is in its place: move it away; training goes on' err
[ -f run/step-00000030 ]
[ -d run/step-00000040 ]
