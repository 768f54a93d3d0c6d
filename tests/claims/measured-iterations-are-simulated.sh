# Every run of graphs/MEASURED.md is simulated within 5% of a measurement, and its figure follows from the costs: with m
# microbatches on each replica, m (F + B) and the update on one stage; on two, of which the later one takes longer, F and B
# of the earlier one around m (F + B) of the later one, and the update. One overhead a job, the mean of what the runs of two
# stages lack, rounded to 0.1 ms, puts every run within 0.7%, those of one stage too.
python3 - <<'END'
import json, os, subprocess, tempfile
orrery, source = os.environ['orrery'], os.environ['source']

def simulate(*words):
    said = subprocess.run([orrery, 'simulate', *words, '--json'], check=True, stdout=subprocess.PIPE).stdout
    return round(json.loads(said)['makespan'] * 1e9)

study = source + '/graphs/studies/opt_350m.dot'
f0, b0 = 922 + 3021 + 10 * 2683, 1 + 6469 + 10 * 6470  # us
f1, b1, update = 13 * 2683 + 4014, 13 * 6470 + 5944, 479
send, gather = 725.109, 401.753  # 67.1 MB over 92.55 GB/s, three quarters of it over 125.28 GB/s
assert abs(send - 2 ** 26 / 92550) < 1e-3 and abs(gather - 2 ** 26 * 0.75 / 125280) < 1e-3
runs, lacking, with_overhead = 0, [], []
for line in open(source + '/graphs/MEASURED.md', encoding='utf-8'):
    if not line.startswith('| N') or len(cells := line.split('|')) != 14:
        continue
    stages, replicas, m = map(int, cells[2:5])
    reduce, *measured, on_page = map(float, cells[5:9])
    jobs = 2 * (m + stages - 1) + 1
    if stages == 2:
        lacking.append((sum(measured) / 2 - on_page) / jobs)
    with_overhead.append((float(cells[11]), on_page, jobs, measured))
    each = ['-w', str(stages * replicas), '-m', str(m * replicas)]
    if stages == 1:
        ns = simulate('chain:1', '--costs', f'{f0 + f1}us,{b0 + b1}us', *each, '--schedule', 'ddp') + 1000 * update
        expected = m * (f0 + b0 + f1 + b1) + update
    else:
        ns = simulate(study, *each, '--schedule', f'lpp:G={replicas},R=2')
        assert ns == simulate(study, '-w', '2', '-m', str(m), '--schedule', '1f1b')
        expected = f0 + b0 + gather + m * (f1 + b1 + 2 * send + gather) + update
    assert ns == round(1000 * expected), (line, ns)
    assert abs(ns / 1e9 + reduce - on_page) < 1e-5, (line, ns)
    assert min(abs(on_page / s - 1) for s in measured) <= 0.05, line
    runs += 1
assert runs == 6, runs
overhead = round(sum(lacking) / len(lacking), 4)
assert overhead == 0.0022 and max(abs(s / overhead - 1) for s in lacking) < 0.04, lacking
for on_page, without, jobs, measured in with_overhead:
    assert abs(on_page - without - jobs * overhead) < 2e-5, (on_page, without, jobs)
    assert min(abs(on_page / s - 1) for s in measured) < 0.0075, (on_page, measured)
text = open(study, encoding='utf-8').read().replace('{', '{ overhead="2200us";', 1)
with tempfile.NamedTemporaryFile('w', suffix='.dot') as file: # the graph's overhead is that of each job in a row
    file.write(text)
    file.flush()
    for m in 4, 8, 16:
        more = simulate(file.name, '-w', '2', '-m', str(m), '--schedule', '1f1b')
        assert more - simulate(study, '-w', '2', '-m', str(m), '--schedule', '1f1b') == (2 * m + 3) * 2200000, (m, more)
END
