# A plan is one under any name, as GRAPH and as --schedule; a file of another kind is none, whatever its name says.
"$orrery" plan chain:4 -w 2 -m 4 -o p.cut >/dev/null
"$orrery" simulate p.cut >wanted
for name in plan p.json p.csv ./p.dot; do
	cp p.cut $name
	"$orrery" simulate $name >found
	diff <(sed 's/^.*: \(1 stage on\)/\1/' wanted) <(sed 's/^.*: \(1 stage on\)/\1/' found)
	"$orrery" compare $name >/dev/null
done
for name in plan ./plan p.cut p.csv; do "$orrery" simulate chain:4 -s $name >found; grep -q ' on 2 workers, 4 microbatches' found; done
"$orrery" simulate chain:4 -w 2 -m 4 -s 1f1b --csv order.csv >/dev/null
cp order.csv order.json
"$orrery" simulate chain:4 -s order.json >/dev/null
cp "$source/graphs/studies/small/01.dot" graph.json
"$orrery" simulate graph.json >/dev/null
code=0
printf '{"a": 1}' >other
"$orrery" simulate other 2>err || code=$?
[ $code -eq 2 ] && grep -q '^orrery: other' err && [ "$(wc -l <err)" -eq 1 ]
# a schedule's own name stays its own
cp p.cut 1f1b
"$orrery" simulate chain:3 -s 1f1b >found
grep -q '^1f1b: 3 stages' found
# and so does a study's
cp p.cut chain:3
"$orrery" simulate chain:3 >found
grep -q '^1f1b: 3 stages' found
# a plan has no operators of its own, and what to show instead is said
code=0
"$orrery" show p.cut 2>err || code=$?
[ $code -eq 2 ] && grep -qx 'orrery: p.cut: a plan, and no model: show the model that it names, or simulate the plan' err
