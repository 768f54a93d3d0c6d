# No order deadlocks greedily, where one stage gathers the minibatch on two workers and jobs of others wait there for room:
# such a job waits for that room, and for no transfer of it.
cat >gathered.dot <<'D'
digraph {
	a [forward=1, backward=1, frozen=true, stage=0];
	b [forward=4, backward=8, gang=2, gather=minibatch, stage=1];
	c [forward=4, backward=5, stage=2];
	d [forward=1, backward=9, stage=3];
	a -> b [gradient=false];
	a -> c;
	b -> c -> d;
}
D
n=0
for schedule in auto auto:reorder=1 gpipe; do
	for links in '' '--latency 1' '--bandwidth 2B/s --activation 4B' '--latency 1 --bandwidth 2B/s'; do
		"$orrery" simulate gathered.dot -w 4 -m 4 --schedule $schedule --order greedy $links --json >report
		n=$((n + 1))
	done
done
[ $n -eq 12 ]
