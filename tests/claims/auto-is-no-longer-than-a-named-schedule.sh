# In the memory of a named schedule, whatever its parameters, auto is no longer.
study='chain:16 --workers 16 -m 64 --costs 12.96ms,13.22ms,9.76ms --latency 0.05ms'
figures() { "$orrery" simulate "$@" --json | python3 -c '
import json, sys
x = json.load(sys.stdin)
print(x["makespan"], max(w["peak_stash"] for w in x["worker"]))'; }

for schedule in k-periodic:k=1 k-periodic:k=5 1f1b-star:T=80ms zb-1p:kept=37; do
	read -r theirs peak < <(figures $study --schedule $schedule)
	read -r ours held < <(figures $study --schedule auto:memory="$peak")
	echo "$schedule: $theirs s at $peak; auto: $ours s at $held"
	python3 -c "assert $ours <= $theirs and $held <= $peak"
done
