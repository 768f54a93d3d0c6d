#!/usr/bin/env python3
"""Figures stay what they are: `simulate --json` of every case of tests/figures.txt, byte for byte.

test_figures.py ORRERY SOURCE [--write]

A line of figures.txt is a digest of the answer and the arguments. Where a figure changes for a
reason, --write puts the new digests there, and the commit says the reason. A refusal is no figure,
and no case stands there twice.
"""
import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor


def answer(orrery, source, arguments):
    result = subprocess.run([orrery, 'simulate', *arguments.split(), '--json'], cwd=source,
                            capture_output=True, check=False)
    if result.returncode:
        return f'exit code {result.returncode}: ' + result.stderr.decode(errors='replace').strip()
    return hashlib.md5(b'0\n' + result.stdout).hexdigest()


def main(orrery, source, *options):
    orrery = os.path.abspath(orrery)
    path = os.path.join(source, 'tests/figures.txt')
    with open(path, encoding='utf-8') as file:
        cases = [line.rstrip('\n').split(' ', 1) for line in file]
    with ThreadPoolExecutor(2) as pool:
        now = list(pool.map(lambda case: answer(orrery, source, case[1]), cases))
    refused = [(case[1], said) for case, said in zip(cases, now) if ' ' in said]
    twice = sorted({case[1] for case in cases if sum(case[1] == other[1] for other in cases) > 1})
    for arguments, said in refused:
        print(f'no figures: orrery simulate --json {arguments}: {said}')
    for arguments in twice:
        print(f'stands there twice: {arguments}')
    if refused or twice:
        return 1
    changed = [case[1] for case, digest in zip(cases, now) if case[0] != digest]
    if options == ('--write',):
        with open(path, 'w', encoding='utf-8') as file:
            file.writelines(f'{digest} {case[1]}\n' for case, digest in zip(cases, now))
    elif changed:
        print('\n'.join('other figures than before: orrery simulate --json ' + c for c in changed))
    print(f'{len(cases)} cases, {len(changed)} changed')
    return 1 if changed and not options else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
