# No output takes the place of a file that the command reads, or of another output, under any name.
cat >in.dot <<'END'
digraph g {
	data="d.csv"
	x [op=input columns="0:2"]
	y [op=input columns="2"]
	a [op=linear features=4]
	b [op=linear features=2]
	loss [op=softmax_cross_entropy]
	x -> a -> b -> loss
	y -> loss
}
END
for i in $(seq 40); do echo "$i,$((i % 7)),$((i % 2))"; done >d.csv
printf 'step,samples,loss\n1,96,2.5\n2,192,2.25\n' >losses.csv
"$orrery" simulate in.dot --stages 2 -m 2 --csv s.csv >/dev/null
printf 'digraph g { node [forward="1ms" backward="2ms"]; a -> b -> c }\n' >study.dot
"$orrery" plan study.dot -w 2 -o plan.json >/dev/null
mkdir run
ln in.dot hard.dot
ln -s in.dot soft.dot
ln -s . here
sha256sum *.dot *.csv *.json >before

for same in in.dot ./in.dot run/../in.dot here/in.dot hard.dot soft.dot "$PWD/in.dot"; do
	refused 'would overwrite' simulate in.dot --stages 2 --svg "$same"
	refused 'would overwrite' simulate soft.dot --stages 2 --trace "$same"
	refused 'would overwrite' compare in.dot --stages 2 --svg "$same"
done
refused 'would overwrite' simulate in.dot --stages 2 --svg d.csv
refused 'would overwrite' simulate in.dot -s s.csv --svg s.csv
refused 'would overwrite' simulate plan.json --svg plan.json
refused 'would overwrite' simulate plan.json --svg study.dot
refused 'would overwrite' plan study.dot -w 2 -o study.dot
refused 'would overwrite' profile in.dot -o in.dot
refused 'are the same file' simulate chain:2 --svg x --csv ./x
refused 'are the same file' simulate chain:2 --csv here/x --trace x
sha256sum --quiet -c before
[ ! -e x ]
"$orrery" simulate in.dot --stages 2 --svg x --csv y >/dev/null # others are fine
[ -s x ]
[ -s y ]
"$orrery" simulate chain:2 --svg /dev/null --csv /dev/null >/dev/null
needs_training
refused 'would overwrite checkpoints' train in.dot --steps 1 --checkpoint later --loss here/later
refused 'would overwrite' train in.dot --steps 1 --loss d.csv
refused 'would overwrite' train in.dot --steps 1 --data losses.csv --loss losses.csv
"$orrery" train in.dot --steps 2 --batch 8 -m 2 --checkpoint run >/dev/null 2>&1
find run -type f -exec sha256sum {} + >>before
mkdir -p run/best/step-00000002
for file in run/.lock run/step-00000002/manifest.json here/run/step-00000002/new run/best/step-00000002/new; do
	refused 'would overwrite' train in.dot --steps 4 --batch 8 -m 2 --checkpoint run --resume --loss "$file"
done
sha256sum --quiet -c before
