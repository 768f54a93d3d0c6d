# Names that are no UTF-8 are refused where they are read, with their line; a path need not be text, and what JSON, SVG
# and traces show of it is.
bad=$(printf '\377')
printf 'digraph g { node [forward="1ms" backward="2ms"]\n"a" -> "b%s" -> c }\n' "$bad" >name.dot
printf 'digraph g { node [forward="1ms" backward="2ms"]\n a [label="caf\351"]\n a -> c }\n' >label.dot
printf 'digraph g { node [forward="1ms" backward="2ms"]\n a -> b; subgraph "cluster_%s" { a } }\n' "$bad" >encoder.dot
printf 'node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, parameter_size=0.000
node2 -- R%s -- forward_compute_time=2.5, backward_compute_time=2.6, activation_size=8.0, parameter_size=0.000
	node1 -- node2\n' "$bad" >graph.txt
for command in show simulate compare 'plan -w 2'; do
	for graph in name.dot label.dot encoder.dot graph.txt; do
		# shellcheck disable=SC2086
		refused ':2: a byte (0x' $command $graph
	done
done
printf 'digraph g { node [forward="1ms" backward="2ms"]\n "caf\303\251" -> "\342\202\254" }\n' >good.dot
"$orrery" simulate good.dot --json | python3 -c 'import json, sys; assert "café" in json.dumps(json.load(sys.stdin), ensure_ascii=False)'

path=b$bad.dot
printf 'digraph g { node [forward="1ms" backward="2ms"]; a -> b -> c }\n' >"$path"
"$orrery" simulate "$path" -m 4 --csv "s$bad.csv" --svg a.svg --trace a.trace --json >a.json
"$orrery" simulate "$path" -s "s$bad.csv" --svg b.svg --trace b.trace --json >b.json
"$orrery" compare "$path" -s "s$bad.csv" --svg c.svg >/dev/null
"$orrery" compare "$path" -s "s$bad.csv" --json >c.json
"$orrery" show "$path" --json >d.json
"$orrery" plan "$path" -w 2 --json -o plan.json >e.json
"$orrery" simulate plan.json --json >f.json
python3 - <<'END'
import json, xml.dom.minidom
for name in 'a.json b.json c.json d.json e.json f.json plan.json a.trace b.trace'.split():
    json.load(open(name, encoding='utf-8'))
for name in 'a.svg b.svg c.svg'.split():
    xml.dom.minidom.parse(name)
assert json.load(open('a.json'))['model'] == 'b\ufffd.dot'
assert 's\ufffd.csv' in json.dumps(json.load(open('c.json')), ensure_ascii=False)
END
