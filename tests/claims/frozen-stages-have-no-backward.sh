# A frozen encoder receives no gradients, keeps no stash and no optimizer state, and makes no forward wait.
$orrery simulate "$source/graphs/studies/frozen.dot" -w 4 -m 8 --latency 1 --json >report.json
python3 - <<'END'
import json
report = json.load(open('report.json'))
workers = report['worker']
assert report['makespan'] <= 39, report['makespan']
assert sum(w['recv_gradient_bytes'] for w in workers) == 8 * 10 ** 8
assert [w['peak_stash'] for w in workers[:2]] == [0, 0]
assert [w['memory_bytes'] for w in workers[:2]] == [10 ** 9, 10 ** 9]
assert [stage['frozen'] for stage in report['stages']] == [True, True, False, False]
END
