# A link in a checkpoint folder is never followed: not to read, not to write and not to remove; what it leads to stays.
needs_training
train() { folder=$1; shift; "$orrery" train "$source/graphs/digits.dot" --every 10 --keep 1 --checkpoint $folder "$@"; }

# of a link the link alone goes, where it is too old, unfinished, or in the place of one that is written
train runA --steps 20
cp -a runA before
train runB --steps 10
ln -s ../runA/step-00000020 runB/.step-00000099.tmp
ln -s ../runA/step-00000020 runB/step-00000005
train runB --steps 30 --resume 2>err
[ "$(ls -A runB | xargs)" = '.lock step-00000030' ]
ln -s ../runA/step-00000020 runB/step-00000040
train runB --steps 40 --resume 2>err
grep -q 'runB/step-00000040: is a link instead of a folder and is not followed' err
[ ! -L runB/step-00000040 ]
diff -r before runA

# a step, manifest or shard that is a link is not read, though all would be there
mkdir runC
ln -s ../runA/step-00000020 runC/step-00000020
code=0; train runC --steps 30 --resume 2>err || code=$?
[ $code -eq 2 ]
for part in manifest.json shard-0.safetensors; do
	rm -rf runD
	cp -a runA runD
	ln -sf ../../runA/step-00000020/$part runD/step-00000020/$part
	code=0; train runD --steps 30 --resume 2>err || code=$?
	[ $code -eq 2 ]
	grep -q "runD/step-00000020/$part: is a link" err
done
diff -r before runA

# nor is a lock, which would be made outside
mkdir runE
ln -s ../outside runE/.lock
code=0; train runE --steps 10 2>err || code=$?
[ $code -eq 2 ]
grep -q 'runE/.lock: is a link' err
[ ! -e outside ]

# nor is the folder of the best one, which is another run's here; its own folder is made beside what is in the way
best() { folder=$1; shift; train $folder --keep-best --evaluate-every 5 "$@"; }
train runF --steps 10
for to in ../runA ../empty ../none; do
	mkdir -p empty
	ln -sfn $to runF/best
	for how in '--resume --steps 40' '--steps 10'; do
		[ "$how" = '--steps 10' ] && folder=runG || folder=runF
		rm -rf runG && mkdir runG && ln -s $to runG/best
		code=0; best $folder $how 2>err || code=$?
		[ $code -eq 2 ] || { echo "$to $how: exit code $code"; exit 1; }
		[ "$(grep -c '^orrery: ' err)" -eq 1 ]
	done
	[ $to = ../none ] || grep -q 'runG/best: is a link instead of a folder and is not followed' err
done
[ -z "$(ls -A empty)" ] && [ ! -e none ]
diff -r before runA
rm runF/best
best runF --resume --steps 20
[ -d runF/best/step-00000020 ] || [ -d runF/best/step-00000015 ]
