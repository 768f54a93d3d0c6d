# Workers and links are given in one way: --workers 2x2 with a bandwidth and a latency for each level, innermost first, to
# simulate, compare, plan and train; as a machine file of two nodes they are the same to the nanosecond.
makespan() { "$orrery" "$@" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["makespan"])'; }
# four stages of 1 and 1, each way over a link of 3, one of 50 and one of 3
[ "$(makespan simulate chain:4 -w 2x2 -m 1 --latency 3,50)" = 120.0 ]
# a byte takes 1 on the inner links and 10 on the outer one, besides
[ "$(makespan simulate chain:4 -w 2x2 -m 1 --latency 3,50 --activation 1B --bandwidth 1B/s,0.1B/s)" = 144.0 ]
[ "$(makespan simulate chain:4 -w 2x2 -m 1 --latency 3,50 --activation 1B --link 1B/s,0.1B/s)" = 144.0 ]
cat >nodes.dot <<'END'
graph {
	bandwidth="0.1B/s"; latency=50
	subgraph nodes { repeat=2; bandwidth="1B/s"; latency=3; a [repeat=2] }
}
END
for schedule in gpipe 1f1b ddp auto; do
	levels=$(makespan simulate chain:4 -w 2x2 -m 4 -s $schedule --latency 3,50 --activation 1B --parameters 2B --bandwidth 1B/s,0.1B/s)
	[ "$(makespan simulate chain:4 -m 4 -s $schedule --machine nodes.dot --activation 1B --parameters 2B)" = "$levels" ]
done

# a plan counts them, and its file has them
set -- chain:4 -w 2x2 -m 4 --costs 20,40 --straight --latency 3,50 --activation 1B --bandwidth 1B/s,0.1B/s
planned=$(makespan plan "$@" -o plan.cut)
[ "$(makespan simulate plan.cut)" = "$planned" ]
[ "$(makespan simulate plan.cut -w 2x2 --latency 3,50)" = "$planned" ]
[ "$(makespan simulate plan.cut --latency 0)" != "$planned" ]
[ "$(makespan plan chain:2 -w 2 -m 1 --costs 2,4 --straight --latency 0)" = 12.0 ]
[ "$(makespan plan chain:2 -w 2 -m 1 --costs 2,4 --straight --latency 5 -o two)" = "$(makespan simulate two)" ]
"$orrery" compare chain:4 -w 2x2 -m 4 --latency 3,50 --plan >out
grep -q '^[* ] plan ' out

refused 'give as many links' simulate chain:4 -w 2x2 --bandwidth 1GB/s
refused 'give as many links' plan chain:4 -w 2x2 --latency 1,2,3
refused 'give all of them a unit, or none' compare chain:4 -w 2x2 --latency 1,2us
refused 'say the levels, such as --workers 4x2' simulate chain:4 -w 4 --bandwidth 1GB/s,2GB/s
refused 'the machine nodes.dot says that' simulate chain:4 -w 2x2 --machine nodes.dot
refused 'the machine nodes.dot says that' plan chain:4 --latency 1 --machine nodes.dot
