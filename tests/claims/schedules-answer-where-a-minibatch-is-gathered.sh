# Every schedule gives a timeline or a reason in one line for a model with a stage that gathers the minibatch, one that is
# with it, a frozen one and jobs of no length; gpipe and auto give a timeline.
cat >gathered.dot <<'D'
digraph gathered {
	n0 [forward=0, activation=28, stash=20];
	n1 [forward=4, backward=1, activation=35, parameters=80];
	n2 [forward=4, backward=1, activation=24, stash=20, parameters=80];
	n3 [forward=0, backward=3, activation=26, stash=18, frozen=true, with=n4];
	n4 [forward=4, backward=1, update=3, activation=12, stash=8, parameters=40, gather=minibatch];
	n5 [forward=2, backward=4, activation=24, stash=37];
	n0 -> n1 [gradient=false];
	n1 -> n2 [bytes=60];
	n2 -> n3;
	n2 -> n4;
	n3 -> n4 [gradient=false];
	n4 -> n5;
}
D
n=0 served=
for schedule in $("$orrery" schedules | awk '/^[a-z0-9]/ { print $1 }'); do
	for workers in 3 6; do
		code=0
		timeout 120 "$orrery" simulate gathered.dot -s "$schedule" -w $workers -m 8 --latency 1 >report 2>said || code=$?
		[ $code -eq 0 ] || { [ $code -eq 2 ] && [ "$(wc -l <said)" -eq 1 ]; }
		[ $code -ne 0 ] || served+=" $schedule"
		n=$((n + 1))
	done
done
[ $n -ge 58 ]
[[ $served == *auto*auto* && $served == *gpipe* ]]
# what train refuses of a model that it could train is said
set -- "$source/graphs/clip.dot" -s lpp:R=1,order=breadth -w 4
"$orrery" simulate "$@" >report
said=$(sed -n 's/^not trained: //p' report)
[[ $said == *'workers 0 and 1 both compute stage 4, which gathers the minibatch'* ]]
[ "$can_train" = no ] || ! "$orrery" train "$@" --steps 1 >out 2>err || exit 1
[ "$can_train" = no ] || [ "$(cat err)" = "orrery: $said" ]
"$orrery" simulate "$source/graphs/clip.dot" -s gpipe -w 4 >report
! grep -q '^not trained' report || exit 1
