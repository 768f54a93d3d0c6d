# The steady state of an asynchronous schedule includes its updates and rings, however many microbatches they cover.
# 2 replicas: 24 (F + B) and a ring of 100 MB, 2 steps of half of it
"$orrery" simulate chain:1 -w 2 --costs 10ms,20ms --parameters 100MB --bandwidth 1GB/s -m 48 \
	--schedule pipedream:replicas=2 --accumulate 24 >out
grep -q '^steady  *820 ms for 48 microbatches' out
# 12 (F + B) and an update; also where a round is several of them
echo 'digraph{node[forward="10ms",backward="20ms",update="30ms"];a->b}' >update.dot
for m in 12 24 48; do
	"$orrery" simulate update.dot -w 2 -m $m --schedule pipedream --accumulate 12 >out
	grep -q '^steady  *390 ms for 12 microbatches' out
done
# 24 microbatches more take as long
for m in 48 72; do
	"$orrery" simulate update.dot -w 2 -m $m --schedule pipedream --accumulate 12 --json >$m.json
done
python3 - <<'END'
import json
long, short = (json.load(open(f"{m}.json"))["makespan"] for m in (72, 48))
assert abs(long - short - 2 * 0.39) < 1e-9, (long, short)
END
# compare says it of a microbatch
"$orrery" compare update.dot -w 2 -m 24 --accumulate 12 >out
grep -q "^[* ] pipedream .* 32\.5 ms" out
# updates that take no time are not waited for
"$orrery" simulate chain:2 -w 2 --costs 10ms,20ms -m 24 --schedule pipedream --accumulate 12 >out
grep -q '^steady  *30 ms for 1 microbatch,' out
