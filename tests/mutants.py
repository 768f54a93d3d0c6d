#!/usr/bin/env python3
"""Would the tests notice? One-line faults in src/, drawn by a seed, each in a copy of the tree: another operator or number, or
a statement that is left out. It is built and tested, what is fast first, up to the first failure. Says how many were found,
and prints the others. A fault that does not compile is drawn anew.

mutants.py SOURCE FOLDER N SEED [MESON TEST OPTION]...     for example mutants.py . src/order 25 1 --suite search
"""
import pathlib
import random
import re
import subprocess
import sys
import tempfile

FAST = ['figures', 'by-hand', 'command', 'measured']
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
    """A file, the number of a line, and the line with a fault. Comments, messages and what lies outside of functions have none."""
    paths = sorted((tree / folder).rglob('*.c'))
    lines = [(path, i) for path in paths for i, line in enumerate(path.read_text(encoding='utf-8').split('\n'))
             if line.startswith('\t') and not re.search(r'"|/\*|^\s*\*|assert\(', line) and any(faults(line))]
    path, i = random_of.choice(lines)
    line = path.read_text(encoding='utf-8').split('\n')[i]
    start, end, text = random_of.choice(list(faults(line)))
    return path, i, line[:start] + text + line[end:]


def passes(tree, *words):
    """False, too, where it does not end."""
    try:
        return subprocess.run(words, cwd=tree, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=3600, check=False).returncode == 0
    except subprocess.TimeoutExpired:
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
            yield said
        path.write_text(before, encoding='utf-8')


def main(source, folder, n, seed, *options):
    found, test = 0, ('meson', 'test', '-C', 'build', '--maxfail', '1')
    with tempfile.TemporaryDirectory() as place:
        tree = pathlib.Path(place) / 'tree'
        subprocess.run(['git', '-C', source, 'worktree', 'add', '--detach', tree], check=True, capture_output=True)
        try:
            if not (passes(tree, 'meson', 'setup', 'build') and passes(tree, *test, *FAST) and passes(tree, *test, *options)):
                raise SystemExit('FAILED: the tests do not pass as it is')
            for said in mutants(tree, folder, int(n), int(seed)):
                survives = passes(tree, *test, *FAST) and passes(tree, *test, *options)
                found += not survives
                print('SURVIVES' if survives else 'found   ', said, flush=True)
        finally:
            subprocess.run(['git', '-C', source, 'worktree', 'remove', '--force', tree], check=False)
    print(f'{found} of {n} faults found')


if __name__ == '__main__':
    main(*sys.argv[1:])
