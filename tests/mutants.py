#!/usr/bin/env python3
"""Would the tests notice? One-line faults in src/, drawn by a seed, each in a copy of the tree: another operator or number, or
a statement that is left out. The tests of its folder run one by one, that of its file first, up to the first that fails, with
only their programs built; then those of the command, whose output has all of the library. Says how many were found, and
prints each. A fault that does not compile is drawn anew.

mutants.py SOURCE FOLDER N SEED [SECONDS]     for example mutants.py . src/order 25 1; none is begun after SECONDS
"""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

LAST = 'figures by-hand measured refused command plan-command claims'
TESTS = {
    'base': 'quantity utf8 nearest safetensors machine graph',
    'model': 'graph graph_errors graph_files edges dataset dataset_files losses tied split replay_dot replay_csv replay_data',
    'rewrite': 'split split_jobs parts gangs',
    'pipeline': 'links machine microbatches numbering parameter_cost tied plan_cuts recompute footprint',
    'schedule': 'schedules async_schedules versions steady exchange simulator reorder plan_file',
    'schedules': 'schedules async_schedules published',
    'simulate': 'jobs links noise idle traffic footprint trace shards simulator report',
    'order': 'block fold zero_bubble search_orders search search_exact exact',
    'plan': 'plan plan_cuts plan_file plan_split plan_search advice periodic exact plan-command',
    'open': 'open plan_file plugin compare',
    'report': 'report diagram trace idle compare html plan-command',
    'checkpoint': 'checkpoint checkpoint_harm safetensors resume weights',
    'runtime/devices': 'run run-order copies evaluate host',
    'runtime/tasks': 'run run-order run-stuck copies reduce async',
    'runtime/peers': 'reduce mpi-cross mpi-reduce mpi-bits mpi-pairs',
    'runtime/run': 'run run-order clip weights finite evaluate resume async',
}
SWAPS = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '==', '+': '-', '-': '+', '*': '+', '/': '*',
         '&&': '||', '||': '&&', '++': '--', '+=': '-=', '-=': '+='}
OPERATOR = re.compile(r' (<=?|>=?|[=!]=|[-+]=?|[*/]|&&|\|\|) |(?<=\w)(\+\+)')
NUMBER = re.compile(r'(?<![\w."])(\d+)(?![\w.])')
STATEMENT = re.compile(r'^\t+(?!return|break|continue|goto|static|const|struct|int|bool)[\w>.\[\]-]+(\(| [-+*/]?= ).*;$')


def faults(line):
    """(start, end, text) of every fault of one line of C."""
    for found in OPERATOR.finditer(line):
        group = 1 if found.group(1) else 2
        yield found.start(group), found.end(group), SWAPS[found.group(group)]
    for found in NUMBER.finditer(line):
        yield found.start(1), found.end(1), str(int(found.group(1)) + 1)
    if STATEMENT.match(line):
        yield 0, len(line), '\t;'


def draw(tree, folder, random_of):
    """A file, the number of a line, and the line with a fault. None is in comments, messages, sizes of text or outside of functions."""
    paths = sorted((tree / folder).rglob('*.c'))
    lines = [(path, i) for path in paths for i, line in enumerate(path.read_text(encoding='utf-8').split('\n'))
             if line.startswith('\t') and not re.search(r'"|/\*|^\s*\*|assert\(|^\s*char \w+\[', line) and any(faults(line))]
    path, i = random_of.choice(lines)
    line = path.read_text(encoding='utf-8').split('\n')[i]
    start, end, text = random_of.choice(list(faults(line)))
    return path, i, line[:start] + text + line[end:]


def passes(folder, *words, env=None, seconds=3600):
    """False, too, where it does not end. A child that Check forks has a group of its own, and would outlive it."""
    with subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env={**os.environ, 'CK_FORK': 'no', **(env or {})}, start_new_session=True) as process:
        try:
            return process.wait(seconds) in (0, 77)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL) # with all that it started
            return False


def mutants(tree, folder, n, seed):
    """Makes n faults, one after the other, and says each."""
    random_of = random.Random(seed)
    while n:
        path, i, line = draw(tree, folder, random_of)
        before = path.read_text(encoding='utf-8')
        lines = before.split('\n')
        said = f'{path.relative_to(tree)}:{i + 1}: {lines[i].strip()}  ->  {line.strip()}'
        lines[i] = line
        path.write_text('\n'.join(lines), encoding='utf-8')
        if passes(tree, 'ninja', '-C', 'build', 'tools/orrery'):
            n -= 1
            yield path, said
        path.write_text(before, encoding='utf-8')


def tests_of(tree):
    """Each test by its name: command, environment, folder, seconds that it may take, and the targets that it needs."""
    def of(what):
        return json.loads(subprocess.run(['meson', 'introspect', f'--{what}', 'build'], cwd=tree, check=True,
                                         capture_output=True).stdout)
    files = {target['id']: [pathlib.Path(name).relative_to(tree / 'build') for name in target['filename']]
             for target in of('targets')}
    return {test['name']: {**test, 'needs': [name for target in test['depends'] for name in files[target]]}
            for test in of('tests')}


def finder(tree, names, tests):
    """The first of these tests that fails, or None. Exit code 77: it was skipped."""
    for test in (tests[name] for name in names):
        if not (passes(tree, 'ninja', '-C', 'build', *test['needs']) and
                passes(test['workdir'] or tree / 'build', *test['cmd'], env=test['env'], seconds=4 * test['timeout'])):
            return test['name']
    return None


def main(source, folder, n, seed, seconds='inf'):
    found, until = [], time.monotonic() + float(seconds)
    with tempfile.TemporaryDirectory() as place:
        tree = pathlib.Path(place) / 'tree'
        subprocess.run(['git', '-C', source, 'worktree', 'add', '--detach', tree], check=True, capture_output=True)
        try:
            if not passes(tree, 'meson', 'setup', 'build', '-Dcuda=disabled', '-Ddebug=false', '-Doptimization=1'):
                raise SystemExit('FAILED: meson setup')
            tests = tests_of(tree)
            for path, said in mutants(tree, folder, int(n), int(seed)):
                names = TESTS[str(path.parent.relative_to(tree / 'src'))].split()
                by = finder(tree, sorted(names, key=lambda name: name != path.stem) + LAST.split(), tests)
                found.append(by)
                print(f'found by {by}:' if by else 'SURVIVES:', said, flush=True)
                if time.monotonic() > until:
                    break
            subprocess.run(['git', 'checkout', '-q', '.'], cwd=tree, check=True)
            for name in sorted(set(found) - {None}):
                if finder(tree, [name], tests):
                    raise SystemExit(f'FAILED: {name} does not pass without a fault either')
        finally:
            subprocess.run(['git', '-C', source, 'worktree', 'remove', '--force', tree], check=False)
    print(f'{len(found) - found.count(None)} of {len(found)} faults found')


if __name__ == '__main__':
    main(*sys.argv[1:])
