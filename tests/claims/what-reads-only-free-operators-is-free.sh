# Operators that cost nothing and read only free ones are free: they make no cuts, so that none is left out.
{
	echo 'digraph { hidden [forward=0]; node [forward=1 backward=2 activation="1MB"];'
	for i in $(seq 20); do # a chain whose layers each take a part of what costs nothing
		echo "item$i [forward=0 backward=0 activation=0]; hidden -> item$i; layer$i; item$i -> layer$i;"
		[ "$i" -eq 1 ] || echo "layer$((i - 1)) -> layer$i;"
	done
	echo '}'
} >chain.dot

"$orrery" plan chain.dot --workers 7 -m 8 --straight --json >plan.json
python3 - <<'END'
import json
plan = json.load(open("plan.json"))
assert not plan["coarse"], "21 cuts are few enough"
assert plan["slowest_stage"] == 9, plan["slowest_stage"]
END
