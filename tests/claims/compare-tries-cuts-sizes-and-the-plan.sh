# compare has a row for every cut and number of microbatches that is listed, and one for the planner's plan; JSON and CSV
# say which, and on what machine.
cat >m.dot <<'END'
digraph {
	node [forward="1ms" backward="2ms" activation="1MB" parameters="10MB" stash="2MB"]
	a -> b -> c -> d -> h
	e -> f -> g -> h -> i -> j
}
END
set -- compare m.dot -w 2 -m 4,8 --stages 2,4 --plan --bandwidth 1GB/s --memory 10GB --latency 1us
"$orrery" "$@" --json --csv rows.csv >json
python3 - <<'END'
import csv, json
found = json.load(open('json'))
assert (found['graph'], found['unit'], found['workers'], found['memory'], found['bandwidth']) == \
    ('m.dot', 'seconds', 2, [10**10], 1e9), found
rows = {(row['schedule'], row['stages'], row['microbatches']): row for row in found['schedules']}
for m in 4, 8:
    assert ('1f1b', 2, m) in rows and ('1f1b', 4, m) in rows and ('v-zb', 4, m) in rows
    assert any(key[0] == 'plan' and key[2] == m for key in rows)
written = list(csv.DictReader(open('rows.csv')))
assert len(written) == len(found['schedules']) + len(found['refused'])
for row in written:
    if not row['reason']:
        same = rows[row['schedule'], int(row['stages']), int(row['microbatches'])]
        assert float(row['makespan']) == same['makespan'] and int(row['memory_bytes']) == same['memory_bytes']
END
# the plan's row is what simulate says of the plan
"$orrery" plan m.dot -w 2 -m 8 --link 1GB/s --memory 10GB --makespan -o p.json >/dev/null
"$orrery" simulate p.json --latency 1us --json >one
python3 - <<'END'
import json
row, = [row for row in json.load(open('json'))['schedules'] if row['schedule'] == 'plan' and row['microbatches'] == 8]
assert row['makespan'] == json.load(open('one'))['makespan'], row
END
"$orrery" "$@" >text
grep -q '^m.dot: 2 or 4 stages on 2 workers of 10 GB, 8 microbatches' text
