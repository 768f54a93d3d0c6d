#!/usr/bin/env python3
"""What is refused: exit code 2, nothing on standard output, and exactly the line that refused/ says. A file there has cases:

    --- show <m.dot>        from here on a case is a file m.dot, and `orrery show m.dot` refuses it
    digraph {               its text, up to =>; \\x00 is a byte, and the last newline is not in it
    => m.dot:1: the file ends inside the graph: close it with }
    $ simulate chain:0      or a case is a command line, in the folder of the source
    => chain:0: 0 is out of range: say 1 to 1000000

SOURCE/ in a command line is that folder. training.txt is of a command that can train.
Usage: test_refused.py ORRERY SOURCE CAN_TRAIN [--write]; --write puts in what it says now."""
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

orrery, source = map(os.path.abspath, sys.argv[1:3])
can_train = sys.argv[3] == 'yes'
SLOW = re.compile(r'^[a-z]+: [0-9]+ s(, .*)?\n', re.MULTILINE)  # what it is doing, on a busy machine


def decoded(text):
    return re.sub(rb'\\x([0-9a-f]{2})', lambda m: bytes.fromhex(m[1].decode()), text.encode())


def cases(path):
    """(path, number of the line, command line, name of the file or None, its text, the line)"""
    command = name = None
    text = []
    for number, line in enumerate(path.read_text(encoding='utf-8').split('\n')[:-1], 1):
        if line.startswith(('--- ', '$ ')):
            name = (re.findall(r'<(.*?)>', line) or [None])[0] if line.startswith('---') else None
            command, text = re.sub('[<>]', '', line.split(' ', 1)[1]) if name else line[2:], []
        elif line.startswith('=> '):
            yield path, number, command, name, decoded('\n'.join(text)), line[3:]
            text = []
        else:
            text.append(line)
    assert not text, f'{path.name}: a case without =>'


def fault(case):
    """What is wrong, or None."""
    path, number, command, name, content, expected = case
    with tempfile.TemporaryDirectory() as folder:
        if name:
            pathlib.Path(folder, name).write_bytes(content)
        words = map(decoded, shlex.split(command.replace('SOURCE/', source + '/')))
        done = subprocess.run([orrery, *words], cwd=folder if name else source, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors='replace', check=False)
    said = SLOW.sub('', done.stderr)
    if (done.returncode, done.stdout, said) != (2, '', f'orrery: {expected}\n'):
        if '--write' in sys.argv:
            lines = path.read_text(encoding='utf-8').split('\n')
            lines[number - 1] = '=> ' + said.strip().removeprefix('orrery: ')
            path.write_text('\n'.join(lines), encoding='utf-8')
        return f'{path.name}:{number}: {command}: exit code {done.returncode}:\n  {said.strip()}\nand not\n  orrery: {expected}'
    return None


every = [case for path in sorted(pathlib.Path(source, 'tests/refused').glob('*.txt'))
         if can_train or path.name != 'training.txt' for case in cases(path)]
with concurrent.futures.ThreadPoolExecutor(1 if '--write' in sys.argv else 2) as pool:
    faults = [found for found in pool.map(fault, every) if found]
print(*(f'FAILED: {found}' for found in faults), sep='\n', end='\n' if faults else '')
print(f'{100 * (len(every) - len(faults)) // len(every)}%: Checks: {len(every)}, Failures: {len(faults)}, Errors: 0')
sys.exit(bool(faults))
