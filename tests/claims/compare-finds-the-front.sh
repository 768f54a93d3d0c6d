# compare --front has a row for every memory in which auto is faster than in less, the same in text, JSON and CSV; --within
# tells the least memory for a makespan, which less does not reach; what does not go with them is refused in a line.
set -- compare chain:8 -w 8 -m 16 --costs 1,1,1 --front
"$orrery" "$@" --json --csv rows.csv --svg front.svg --html front.html >json
"$orrery" "$@" --within 70 >text
"$orrery" "$@" --within 70 --json >within
"$orrery" compare chain:8 -w 8 -m 16,24 --costs 1,1,1 --front --within 100 --json >both
"$orrery" compare chain:4 -m 8 --stash 300MB --parameters 1GB --front --csv sized.csv >sized
python3 - <<'END'
import csv, json, os, re, subprocess
found, written = json.load(open('json')), list(csv.DictReader(open('rows.csv')))
rows = {row['schedule']: row for row in found['schedules']}
front = [row for row in found['schedules'] if row['schedule'].startswith('auto:memory=')]
assert found['front'] == {'most_memories': 16, 'within': None, 'least_within': []}, found['front']

# more memory is faster, from one microbatch at a time, m (2P + 1), to 3m + P - 1
held = [row['peak_stash'] for row in front]
assert held == sorted(set(held), reverse=True) and held[0] == 8 and held[-1] == 1, held
makespans = [row['makespan'] for row in front]
assert makespans == sorted(set(makespans)) and makespans[0] == 55 and makespans[-1] == 16 * 17, makespans
assert all(row['lower_bound'] <= row['makespan'] for row in front)
for row in front:
    command = [os.environ['orrery'], 'simulate', 'chain:8', '-w', '8', '-m', '16', '--costs', '1,1,1', '--json', '--schedule']
    ran = json.loads(subprocess.run([*command, row['schedule']], check=True, capture_output=True).stdout)
    assert ran['makespan'] == row['makespan'], row

# the table and the CSV say the same
text = open('text').read()
for row in written:
    if row['reason']:
        continue
    x = rows[row['schedule']]
    assert (float(row['makespan']), int(row['peak_stash']), bool(int(row['on_front']))) == \
        (x['makespan'], x['peak_stash'], x['on_front']), row
assert re.search(r'^chain:8: .*; auto in up to 16 memories$', text, re.M)
for row in json.load(open('within'))['schedules']:
    assert re.search(r'^%s %s +%g ' % (r'\*' if row['on_front'] else ' ', re.escape(row['schedule']), row['makespan']), text, re.M)
svg = open('front.svg').read()
assert all('>' + row['schedule'] in svg or row['schedule'] + '<' in svg for row in front if row['on_front'])
assert 'most_memories' in open('front.html').read()

# within 70 units: 5 stashes, and no order in 4 is that short
said = json.load(open('within'))
least = said['schedules'][said['front']['least_within'][0]]
assert said['front']['within'] == 70 and (least['schedule'], least['peak_stash'], least['makespan']) == ('auto:memory=5', 5, 68)
assert 'within 70 units: 5 stage stashes on the worker that needs most, 68 units, auto:memory=5\n' in text
assert rows['auto:memory=4']['lower_bound'] > 70

# a table each
both = json.load(open('both'))
for m, at in zip((16, 24), both['front']['least_within']):
    row = both['schedules'][at]
    within = [x for x in both['schedules'] if x['microbatches'] == m and x['makespan'] <= 100]
    assert row['microbatches'] == m and row['peak_stash'] == min(x['peak_stash'] for x in within), row

# in bytes, of parameters too: 4 GB with gradients and AdamW's, and 300 MB a stash
sized = [row for row in csv.DictReader(open('sized.csv')) if row['schedule'].startswith('auto in ')]
assert sized and all(int(row['memory_bytes']) <= int(row['memory']) for row in sized)
assert min(int(row['memory_bytes']) for row in sized) == 4 * 10**9 + 3 * 10**8
END
grep -q '^  auto in 4300MB  *52 ' sized

refused()
{
	line=$1
	shift
	code=0
	"$orrery" compare "$@" >out 2>err || code=$?
	[ $code -eq 2 ] && [ ! -s out ] && [ "$(cat err)" = "orrery: $line" ]
}
refused '--front goes through the memories itself: leave --memory out' chain:4 --front --memory 1GB
refused '--within: the least memory is looked for along the front: give --front too' chain:4 --within 3
refused '--within: the costs are units, so it is a plain number' chain:4 --front --within 3s
refused '--within: it has no unit, and the costs are times: say 1.5s' chain:4 --costs 1ms,1ms --front --within 3
refused '--within: a step takes longer than 0' chain:4 --front --within 0
cat >machine.dot <<'END'
graph machine {
    w [repeat=4, memory="8GB"];
}
END
refused '--front goes through the memories itself: leave `memory` out of the file of --machine' chain:4 --machine machine.dot --front
