# Where there are too many cuts to try them all, plan still cuts every branch by itself: CANDLE-Uno on 28 workers, MMT on 32.
makespan() {
	"$orrery" plan "$1" --workers "$2" -m "$3" --straight --makespan --json | python3 -c 'import json, sys
print(round(1000 * json.load(sys.stdin)["makespan"]))'
}

[ "$(makespan "$source/graphs/studies/candle_uno.dot" 28 32)" -le 516 ]
# a microbatch in each of 64 slots of 18 ms, and 8 layers more until the first one is through: 64 * 18 + 8 * (4 + 8)
[ "$(makespan "$source/graphs/studies/mmt.dot" 32 64)" -le 1248 ]
