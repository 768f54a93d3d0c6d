# Beside FILE.csv lies FILE.stages.json with the operators of every stage and the edges between them; a file of that name that is not ours is left alone.
cat >m.dot <<'E'
digraph m { b; a; c; node [forward=1 backward=2]; b [forward=1 backward=2]; a [forward=1 backward=2]; c [forward=1 backward=2]; a->c; b->c }
E
$orrery simulate m.dot --csv s.csv --json >report 2>said
python3 - <<'E'
import json
report, beside = json.load(open("report")), json.load(open("s.stages.json"))
assert beside["stages"] == report["stages"] and beside["edges"] == [[0, 2], [1, 2]]
assert [s["operators"] for s in beside["stages"]] == [["b"], ["a"], ["c"]] and len(beside["not_in_csv"]) == 1
E
$orrery simulate chain:2 --csv s.csv >report # ours is written anew
python3 -c 'import json; s = json.load(open("s.stages.json")); assert len(s["stages"]) == 2 and s["model"] == "chain:2" and not s["not_in_csv"]'
for theirs in '{"stages": [1]}' 'notes' ''; do
	printf '%s' "$theirs" >t.stages.json
	code=0
	$orrery simulate chain:2 --csv t.csv >report 2>said || code=$?
	[ $code -eq 2 ]
	grep -q t.stages.json said
	[ "$(cat t.stages.json)" = "$theirs" ]
	[ ! -e t.csv ]
done
$orrery simulate chain:2 --csv /dev/null >report
$orrery simulate chain:2 --csv plain >report
[ -e plain ]
[ "$(echo plain*)" = plain ]
