#!/usr/bin/env python3
"""tools/study --quick: its rows are those of tests/study.txt, a digest for each command; an answer that is asked for again is the
same to the byte, and so is the page; every finding has its rows.

test_study.py ORRERY SOURCE [--write]       --write: study.txt anew, for a change that means it
"""
import csv
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from checks import check, finish

orrery, source = (os.path.realpath(path) for path in sys.argv[1:3])
TOLD = pathlib.Path(source, 'tests/study.txt')


def study(out):
    subprocess.run([os.path.join(source, 'tools/study'), out, orrery, '--quick'], check=True, stderr=subprocess.DEVNULL)
    return {name: pathlib.Path(out, name).read_bytes() for name in ('study.csv', 'commands.txt', 'README.md', 'index.html')}


with tempfile.TemporaryDirectory() as out:
    first = study(out)
    for path in sorted(pathlib.Path(out, 'answers').iterdir())[::10]:
        path.unlink()
    again = study(out)
    check(first == again, f'asked again, others: {[name for name in first if first[name] != again[name]]}')
    drawn = sorted(path.name for path in pathlib.Path(out, 'drawings').iterdir())
    check(len(drawn) == 5, f'drawings: {drawn}')
commands = first['commands.txt'].decode().splitlines()
lines = {n: hashlib.md5() for n in range(1, len(commands) + 1)}
for row in csv.DictReader(first['study.csv'].decode().splitlines()):
    lines[int(row['command'])].update(repr(sorted(row.items())).encode())
now = [f'{digest.hexdigest()} {commands[n - 1]}' for n, digest in lines.items()]
if sys.argv[3:] == ['--write']:
    TOLD.write_text('\n'.join(now) + '\n', encoding='utf-8')
told = TOLD.read_text(encoding='utf-8').splitlines()
for line in now:
    check(line in told, f'other rows than tests/study.txt has; where that is meant, test_study.py --write: {line}')
check(len(now) == len(told), f'{len(now)} commands, and tests/study.txt has {len(told)}')
sys.path.append(os.path.join(source, 'tools/tables'))
import models  # noqa: E402 that is where it lies

# trained stages before one that is frozen: it has a backward, and no weight gradient
with tempfile.TemporaryDirectory() as folder:
    graph, plan, chain = (pathlib.Path(folder, name) for name in ('g.dot', 'plan.json', 'chain.dot'))
    text = pathlib.Path(source, 'graphs/digits.dot').read_text(encoding='utf-8')
    graph.write_text(text.replace('[stage=4]', '[stage=4, frozen=true]'), encoding='utf-8')
    asked = ['-m', '4', '--batch', '4', '--flops', '1e4']
    models.run(orrery, 'simulate', graph, *asked, '-o', plan)
    chain.write_text(models.chain_of(models.ask(orrery, 'show', graph), json.loads(plan.read_text())))
    busy = [[worker['busy'] for worker in models.ask(orrery, 'simulate', of, *asked)['worker']] for of in (graph, chain)]
    check(len(busy[0]) == 6 and all(abs(a / b - 1) < 1e-6 for a, b in zip(*busy)), f'a chain does other work than its DAG: {busy}')
for words in (['--workers', '0'], ['--workers', '8', '1'], ['--jobs', '0']):
    told = subprocess.run([os.path.join(source, 'tools/study'), 'out', orrery, *words], check=False, capture_output=True, text=True)
    check(told.returncode == 2 and told.stderr.endswith('error: --workers are 2 at least, and --jobs 1\n'), f'{words}: {told}')
for words, why in ((['out', '/no/orrery'], '/no/orrery: No such file or directory'), (['out', '/bin/true'], '/bin/true: not the command'),
                   (['/dev/null', orrery], '/dev/null/graphs: Not a directory')):
    told = subprocess.run([os.path.join(source, 'tools/study'), *words], check=False, capture_output=True, text=True)
    check(told.returncode == 2 and f'error: {why}' in told.stderr.splitlines()[-1], f'{words}: {told}')
page = first['README.md'].decode()
check(page.count('\n## ') == 11 and '0 of 0' not in page, f'the page: {page}')
finish()
