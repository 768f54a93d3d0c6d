# Where a graph has several outputs, auto finds the order of a microbatch that holds least, and refuses only less than that.
cat >sinks.dot <<'DOT'
digraph g {
  a [forward=1, backward=1, weight=1, stage=0]; b [forward=1, backward=1, weight=1, stage=1]
  c [forward=1, backward=1, weight=1, stage=2]
  a -> b; a -> c
}
DOT
"$orrery" simulate sinks.dot --workers 1 -m 2 --schedule auto:memory=2 --json | python3 -c '
import json, sys
x = json.load(sys.stdin)
assert x["makespan"] == 18 and x["worker"][0]["peak_stash"] == 2, x'
if "$orrery" simulate sinks.dot --workers 1 -m 2 --schedule auto:memory=1 2>err; then exit 1; fi
grep -q 'one microbatch alone takes 2 on the placements that it tries: give memory=2 or more' err
