# By default auto takes the best of all its placements, and what is said of its bound is said of the placement that it took.
cat >uneven.dot <<'DOT'
digraph g {
  a [forward=9, backward=9, weight=9, stage=0]; b [forward=1, backward=1, weight=1, stage=1]
  c [forward=9, backward=9, weight=9, stage=2]; d [forward=9, backward=9, weight=9, stage=3]
  e [forward=1, backward=1, weight=1, stage=4]
  a -> b -> c -> d -> e
}
DOT
for placement in any straight fold plan; do
	"$orrery" simulate uneven.dot --workers 3 -m 8 --schedule auto:placement=$placement --json >$placement.json
done
python3 - <<'PY'
import json
x = {p: json.load(open(p + ".json")) for p in ("any", "straight", "fold", "plan")}
assert x["any"]["makespan"] == min(v["makespan"] for v in x.values()), x
assert x["any"]["lower_bound_over"].startswith("orders on this placement")
PY
"$orrery" simulate uneven.dot --workers 3 -m 8 --schedule auto:placement=straight >text
grep -q 'lower bound  432 units; reached: no order of these jobs on these workers is shorter' text
"$orrery" simulate chain:8 --workers 8 -m 16 --costs 3,4,2 --schedule auto:memory=4 >text
grep -q 'lower bound  .* on these workers within the limits of auto' text
