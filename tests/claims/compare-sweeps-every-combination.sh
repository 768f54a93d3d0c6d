# A sweep of compare has a row for every schedule under every combination of stages, microbatches and memory, with its
# figures or the reason where it is refused; 1f1b and gpipe are what their closed forms say.
set -- compare chain:8 -w 8 --stages 4,8 -m 4,16 --memory 1GB,4GB --costs 1,2 --stash 100MB --plan
"$orrery" "$@" --json --csv rows.csv >json
"$orrery" "$@" --csv again.csv >text
cmp rows.csv again.csv
python3 - <<'END'
import csv, itertools, json
found, written = json.load(open('json')), list(csv.DictReader(open('rows.csv')))
assert (found['model'], found['unit'], found['machine']) == ('chain:8', 'units', None), found
assert (found['microbatches'], found['memory']) == ([4, 16], [10**9, 4 * 10**9]), found
named = ['schedule', 'stages', 'microbatches', 'memory']
rows = {tuple(row[name] for name in named): row for row in found['schedules'] + found['refused']}
assert len(rows) == len(found['schedules']) + len(found['refused']) == len(written)

# every combination, in the order of the options
tables = [list(rows) for _, rows in itertools.groupby(written, key=lambda row: (row['microbatches'], row['memory']))]
assert [(rows[0]['microbatches'], rows[0]['memory']) for rows in tables] == \
    [(m, size) for m in ('4', '16') for size in ('1000000000', '4000000000')]
names = {row['schedule'] for row in found['schedules'] + found['refused']} - {'plan'}
assert len(names) > 25
for stages, m, memory in itertools.product((4, 8), (4, 16), (10**9, 4 * 10**9)):
    for name in names:
        assert (name, stages, m, memory) in rows, (name, stages, m, memory)

# the CSV says the same
for row in written:
    key = row['schedule'], int(row['stages']) if row['stages'] else None, int(row['microbatches']), int(row['memory'])
    assert row['reason'] == rows[key].get('reason', ''), row
    for name in 'makespan', 'bubble', 'lower_bound', 'peak_stash', 'memory_bytes', 'received_bytes':
        assert row['reason'] or abs(float(row[name]) - rows[key][name]) < 1e-6, row

# S stages of 8 / S units' forward and twice that backward; gpipe holds m stashes, 1f1b no more than S
for stages, m, memory in itertools.product((4, 8), (4, 16), (10**9, 4 * 10**9)):
    for name, held in ('gpipe', m), ('1f1b', min(m, stages)):
        row, stash = rows[name, stages, m, memory], held * 10**8 * 8 // stages
        if stash > memory:
            assert 'needs' in row['reason'] and '--memory' in row['reason'] and 'makespan' not in row, row
        else:
            assert row['makespan'] == (m + stages - 1) * 3 * 8 / stages, row
            assert (row['peak_stash'], row['memory_bytes']) == (held, stash), row
assert 'reason' in rows['gpipe', 8, 16, 10**9] and 'reason' not in rows['1f1b', 8, 16, 10**9]

# the stages of every row
for row in found['schedules']:
    stages = found['cuts'][row['cut']]['stages']
    assert len(stages) == row['stages'] and sum(len(stage['operators']) for stage in stages) == 8, row
assert len([cut for cut in found['cuts'] if len(cut['stages']) == 4]) == 1
plans = [row for row in rows.values() if row['schedule'] == 'plan']
assert len(plans) == 4 and all('makespan' in row or row['stages'] is row['cut'] is None for row in plans), plans
END
grep -qx 'chain:8: 4 or 8 stages on 8 workers of 1 GB, 16 microbatches' text
grep -q '^  gpipe, 8 stages  *worker 0 needs 1.6 GB' text

# other commands take one value
for command in simulate train 'plan -w 2'; do
	for list in '-m 8,16' '--stages 2,4' '--memory 8GB,16GB'; do
		code=0
		"$orrery" $command chain:8 $list >out 2>err || code=$?
		[ $code -eq 2 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ]
		grep -q -- "$list: lists are for .orrery compare., which shows all values side by side: give one$" err
	done
done
