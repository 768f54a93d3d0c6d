#!/usr/bin/env python3
"""orrery simulate --measured: times of jobs that ran elsewhere, drawn beside the simulated ones; and files that are none of
this plan. Usage: test_measured.py ORRERY"""
import copy
import json
import os
import subprocess
import sys
import tempfile

from checks import check, finish

orrery = os.path.abspath(sys.argv[1])
GRAPH = '''digraph two {
    a [forward="2ms" backward="3ms" activation=8 stash=16 parameters=4]
    b [forward="1ms" backward="2ms" activation=8 stash=16 parameters=4]
    a -> b
}'''
# 1f1b with 2 microbatches, each job later than the simulated one could be
TIMES = {'worker': [{'order': ['0F0', '0F1', '0B0', '0B1'], 'start': [0, 0.002, 0.008, 0.012], 'end': [0.002, 0.0045, 0.011, 0.015]},
                    {'order': ['1F0', '1B0', '1F1', '1B1'], 'start': [0.003, 0.004, 0.006, 0.007], 'end': [0.004, 0.006, 0.007, 0.0095]}]}


def simulate(*words):
    return subprocess.run([orrery, 'simulate', 'plan.json', '--measured', 'times.json', *words], cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def write(name, text):
    with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
        file.write(text if isinstance(text, str) else json.dumps(text))


def read(name):
    with open(os.path.join(folder, name), encoding='utf-8') as file:
        return file.read()


def check_outputs():
    done = simulate('--json', '--trace', 'trace.json', '--html', 'page.html', '--svg', 'drawing.svg')
    check(done.returncode == 0, done.stderr)
    told = json.loads(done.stdout)
    check(told['measured']['makespan'] == 0.015, told['measured']['makespan'])
    check([w['busy'] for w in told['measured']['worker']] == [0.0105, 0.0065], told['measured']['worker'])
    check(told['makespan'] == 0.011, told['makespan'])
    events = json.loads(read('trace.json'))['traceEvents']
    names = [e['args']['name'] for e in events if e['name'] == 'process_name']
    check(names == ['predicted', 'measured'], names)
    ran = {(e['pid'], e['name']): (e['ts'], e['dur']) for e in events if e['ph'] == 'X'}
    check(ran[1, '0F1'] == (2000, 2500) and ran[1, '0B1'] == (12000, 3000), ran)
    check(ran[0, '0F1'] == (2000, 2000), ran)
    page = json.loads(read('page.html').split('type="application/json"', 1)[1].split('>', 1)[1].split('</script>', 1)[0])
    check([t['name'] for t in page['timelines']] == ['predicted', 'measured'], 'timelines of the page')
    check([t['makespan'] for t in page['timelines']] == [11000000, 15000000], 'makespans of the page')
    check('measured' in read('drawing.svg'), 'the drawing is of the measured timeline')
    text = simulate().stdout
    check('Measured: 15 ms, 1.36 times the simulated makespan.' in text, text)


def refused(what, change, message, *words):
    """A file with one mistake: exit code 2, and a line that says so."""
    times = copy.deepcopy(TIMES)
    write('times.json', change(times) or times)
    done = simulate(*words)
    check(done.returncode == 2, f'{what}: exit code {done.returncode}')
    check(done.stderr.startswith('orrery: times.json') and message in done.stderr and done.stderr.count('\n') == 1,
          f'{what}: {done.stderr}')


def check_refusals():
    worker = TIMES['worker']
    refused('no JSON', lambda t: '{', 'times.json:1: no times of jobs')
    refused('a list', lambda t: '[]', 'the times of 0 workers, and the schedule has 2')
    refused('one worker', lambda t: {'worker': worker[:1]}, 'the times of 1 workers')
    refused('another order', lambda t: t['worker'][0]['order'].reverse(), 'worker 0, job 0 is 0B1, and 0F0 in the schedule')
    refused('a job less', lambda t: t['worker'][1]['order'].__delitem__(3), 'worker 1, job 3 is missing, and 1B1')
    refused('a job more', lambda t: t['worker'][1]['order'].append('1F2'), 'worker 1 has 5 jobs, and 4 in the schedule')
    refused('a time less', lambda t: t['worker'][1]['end'].__delitem__(3), 'worker 1, end 3: give seconds')
    refused('text', lambda t: t['worker'][0]['start'].__setitem__(2, 'late'), 'worker 0, start 2: give seconds')
    refused('before the step', lambda t: t['worker'][0]['start'].__setitem__(0, -1), 'worker 0, start 0: give seconds')
    refused('backwards', lambda t: t['worker'][0]['end'].__setitem__(3, 0.001), 'job 0B1 never ran')
    refused('too early', lambda t: t['worker'][1]['start'].__setitem__(0, 0.001), 'job 1F0 starts before job 0F0')
    refused('at once', lambda t: t['worker'][0]['end'].__setitem__(0, 0.0025), 'starts job 0F1 before the one before it')
    refused('another plan', lambda t: None, 'the times of 2 workers, and the schedule has 1', '-w', '1', '-s', 'gpipe')
    refused('rounds', lambda t: None, 'not beside a schedule that never flushes', '-s', 'pipedream')
    refused('no length', lambda t: [w.update(start=[0] * 4, end=[0] * 4) for w in t['worker']] and None, 'no job took any time')
    os.remove(os.path.join(folder, 'times.json'))
    done = simulate()
    check(done.returncode == 2 and done.stderr.startswith('orrery: times.json: cannot open it: No such file or directory: name'), done.stderr)
    os.mkdir(os.path.join(folder, 'times.json'))
    done = simulate()
    check(done.returncode == 2 and done.stderr == 'orrery: times.json: a directory: name a file in it\n', done.stderr)
    os.rmdir(os.path.join(folder, 'times.json'))


with tempfile.TemporaryDirectory() as folder:
    write('two.dot', GRAPH)
    write('times.json', TIMES)
    subprocess.run([orrery, 'simulate', 'two.dot', '-w', '2', '-m', '2', '-s', '1f1b', '-o', 'plan.json'], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    check_outputs()
    check_refusals()
    write('times.json', TIMES)
    check(simulate('--svg', 'times.json').returncode == 2 and json.loads(read('times.json')) == TIMES, 'written over what is read')
finish()
