#!/usr/bin/env python3
"""tools/study --quick: its rows are those of tests/study.txt, a digest for each command; an answer that is asked for again is the
same to the byte, and so is the page; every finding has its rows.

test_study.py ORRERY SOURCE [--write]       --write: study.txt anew, for a change that means it
"""
import csv
import hashlib
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
page = first['README.md'].decode()
check(page.count('\n## ') == 11 and '0 of 0' not in page, f'the page: {page}')
finish()
