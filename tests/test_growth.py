#!/usr/bin/env python3
"""test_growth.py ORRERY SOURCE [COUNT_LAUNCHES]: tools/table growth prints the table that its README promises, and ends with 1 where a
line is marked; no time decides. Of its graphs, what a step starts on the emulated device is counted, and grows as the
mathematics has it: of twice the size products are no more and read and write at most twice as much, and what is launched is
at most one more, of the sort of ids."""
import importlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ORRERY, SOURCE, COUNT = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
SIZES = ('--first', '16', '--batch', '1')
CELL = re.compile(r'[\d.e+]+ (ns|us|ms|s)')


def growth(*words):
    done = subprocess.run([SOURCE / 'tools/table', 'growth', ORRERY, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


def check_table(axis, operators):
    """Every operator in a row of its own: four times, two powers, that of the mathematics, and a mark which is told by the exit code."""
    code, (head, rule, *rows, end), _ = growth(axis, *SIZES)
    assert head == f'| {axis} | 16 | 32 | 64 | 128 | a doubling | the last | mathematics |', head
    assert rule == '|---|' + 7 * '---|' and not end, (rule, end)
    cells = [row.rstrip(' !').strip('|').split('|') for row in rows]
    assert {row[0].strip() for row in cells} == operators, cells
    for row in cells:
        assert len(row) == 8 and all(CELL.fullmatch(time.strip()) for time in row[1:5]), row
        assert all(re.fullmatch(r'-?\d+\.\d\d', power.strip()) for power in row[5:7]) and row[7].strip() in '012', row
    assert code == any(row.endswith('!') for row in rows), (code, rows)


def counted(graph, folder):
    """Launches and products of a step in fp32, and the mebibytes that products read and write."""
    path = Path(folder, 'graph.dot')
    path.write_text(graph, encoding='utf-8')
    told = subprocess.run([*COUNT, f'{path}:1:2'], capture_output=True, text=True, check=True).stdout
    own = told[told.index('graph.dot, 1 stages, a microbatch of 2, fp32'):]
    return [float(n) for n in re.search(r'all +(\d+) launches \+ +(\d+) products.*operands ([\d.]+) MiB', own).groups()]


def main():
    sys.dont_write_bytecode = True
    sys.path.append(str(SOURCE / 'tools/tables'))
    axes = importlib.import_module('growth').AXES
    assert set(axes) == {'tokens', 'words', 'classes', 'images'}
    check_table('classes', {'linear', 'softmax', 'logits', 'softmax_cross_entropy'})
    code, rows, _ = growth('classes', *SIZES, '--most', '-9')  # less than anything grows
    assert code == 1 and all(row.endswith('!') for row in rows[2:-1]), rows
    code, rows, why = growth('no-axis')
    assert code == 2 and not rows and 'no-axis is no axis: tokens, words, classes, images' in why, why
    with tempfile.TemporaryDirectory() as folder:
        for graph in [graph for _, graph, _ in axes.values()] if COUNT else []:
            few, many = (counted(graph.format(n=n, n2=2 * n, n3=3 * n, side=32), folder) for n in (1024, 2048))
            assert few[0] <= many[0] <= few[0] + 1 and few[1] == many[1] and few[2] < many[2] <= 2 * few[2] + 0.1, (few, many)


main()
