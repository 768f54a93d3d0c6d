# compare cuts a study to the workers, one stage or two on each, and shows each schedule on the cut that suits it.
"$orrery" compare chain:19 -w 8 -m 16 --json >json
python3 - <<'END'
import json
found = json.load(open('json'))
stages = {row['schedule']: row['stages'] for row in found['schedules']}
assert set(stages.values()) == {8, 16}, stages
assert stages['1f1b-star'] == 8 and stages['v-zb'] == 16, stages
assert len(stages) > 25 and len(found['refused']) < 3, found['refused']
END
# what it says of a cut is what simulate says of it
"$orrery" simulate chain:19 -w 8 -m 16 --stages 16 --schedule v-zb --json >one
python3 - <<'END'
import json
row, = [row for row in json.load(open('json'))['schedules'] if row['schedule'] == 'v-zb']
assert row['makespan'] == json.load(open('one'))['makespan']
END
