#!/usr/bin/env python3
"""What the command says must be true: each file in claims/ is one claim, and fails where it does not hold. It runs in a folder
of its own, from top to bottom:

    --- m.dot                        a file: its text goes up to `---` or to the next line that starts with one of --- $ % ? each
    $ simulate m.dot --json > a      a command, {x} is what x is; what it prints is in the file `out`, here `a`, and in `err`
    % cc -o x x.c                    the same in bash, with $orrery, $source and what = named
    => m.dot: ...say...              exit code 2, nothing on standard output and this one line; ... is anything, here and below
    =1                               that exit code; =any any, named `code`. Without it, 0
    | ^total 3 ms$                   a line with that text, ^ and $ its ends, a space one or several; `! ` no such line
    2| text                          on standard error; `2! ` not there
    ? a.makespan <= 2 * b.makespan   what must hold, in Python: a file of JSON has the name of the file, without .json
    x = said('simulate m.dot')       names; said() is what a command says with --json
    each x, y in 1 2 3 4             what is indented below, with x and y as 1 and 2, then as 3 and 4
    if training                      what is indented below, if so: here, where the build can train
    needs training                   without it the claim ends here and is skipped
    needs cc --version # no compiler the same, unless that works

A line that ends with \\ goes on in the next; SOURCE/ is the folder of the source, \\xff a byte. Claims that never train run two
at a time, the others one by one: they take all cores. A claim.sh is a script. An older build can be held against the same claims.
Usage: test_claims.py ORRERY SOURCE CAN_TRAIN [CLAIM...]"""
import ast
import concurrent.futures
import csv
import glob
import itertools
import json
import math
import os
import pathlib
import re
import resource
import shlex
import struct
import subprocess
import sys
import tempfile

orrery, source = map(os.path.abspath, sys.argv[1:3])
can_train = sys.argv[3] == 'yes'
folder = pathlib.Path(source, 'tests/claims')
FILE_ENDS = ('--- ', '$ ', '% ', '? ', 'each ')


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


class Report(dict):
    __getattr__ = dict.__getitem__


def loaded(text):
    return json.loads(text, object_hook=Report)


def text(name='out'):
    return pathlib.Path(name).read_text(encoding='utf-8', errors='surrogateescape')


def rows(name):
    with open(name, encoding='utf-8') as file:
        return [Report(row) for row in csv.DictReader(file)]


def tensors(name):
    """The bytes of each tensor of a safetensors file."""
    content = pathlib.Path(name).read_bytes()
    start = 8 + struct.unpack('<Q', content[:8])[0]
    return {tensor: content[slice(*(start + at for at in x['data_offsets']))]
            for tensor, x in json.loads(content[8:start]).items() if tensor != '__metadata__'}


def finite(name):
    return all(math.isfinite(x) for data in tensors(name).values() for x, in struct.iter_unpack('<f', data))


def same(*names):
    return len({pathlib.Path(name).read_bytes() for name in names}) == 1


def found(pattern, name='out'):
    return re.findall(pattern, text(name), re.MULTILINE)


def words(line):
    line = line.replace('SOURCE/', source + '/')
    return [re.sub(rb'\\x([0-9a-f]{2})', lambda m: bytes.fromhex(m[1].decode()), word.encode()) for word in shlex.split(line)]


def said(line):
    """What a command says with --json."""
    done = subprocess.run([orrery, *words(line), '--json'], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise Failed(f'{line}: exit code {done.returncode}: {done.stderr.decode(errors="replace")}')
    return loaded(done.stdout)


class Names(dict):
    """What expressions know: what was named, and the files."""
    def __missing__(self, name):
        for file in name, name + '.json':
            if os.path.isfile(file):
                return loaded(text(file))
        raise KeyError(name)


def pattern_of(wanted, spaces=' +'):
    return '.*'.join(re.escape(part).replace(r'\ ', spaces) for part in wanted.split('...'))


def line_of(wanted):
    start, end = wanted.startswith('^'), wanted.endswith('$')
    return '^' * start + pattern_of(wanted[start:len(wanted) - end]) + '$' * end


class Claim:
    def __init__(self):
        self.names = Names(
            source=source, training=can_train, said=said, text=text, rows=rows, tensors=tensors, finite=finite, same=same,
            found=found, exists=os.path.lexists, glob=glob.glob, ls=lambda at: sorted(os.listdir(at)), itertools=itertools,
            json=json, math=math, os=os, re=re, peak_memory=lambda: resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)

    def value(self, expression):
        return eval(expression, self.names)  # pylint: disable=eval-used

    def filled(self, line):
        return re.sub(r'\{([^{}]+)\}', lambda m: str(self.value(m[1])), line)

    def run(self, line, checks):
        out, err = 'out', 'err'
        if line[0] == '$':
            line = self.filled(line)
            line, out = (re.findall(r'^(.*) > (\S+)$', line) or [(line, out)])[0]
            command, env = [orrery, *words(line[2:])], None
        else:
            named = {name: str(x) for name, x in self.names.items() if isinstance(x, (str, int, float))}
            command, env = ['bash', '-euc', line[2:]], {**os.environ, 'orrery': orrery, **named}
            out, err = '.out', '.err'  # those of the last command stay
        with open(out, 'wb') as stdout, open(err, 'wb') as stderr:
            code = self.names['code'] = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                                                       timeout=300, check=False).returncode
        wanted = next((check for check in checks if check[0] == '='), '=0')
        number = '2' if wanted.startswith('=>') else wanted[1:]
        if number not in ('any', str(code)):
            raise Failed(f'{line}: exit code {code}, not {number}: {text(err)[-600:]}')
        for check in checks:
            self.check(line, self.filled(check), out)

    @staticmethod
    def check(line, check, out):
        if check.startswith('=> '):
            if text(out) or not re.fullmatch('orrery: ' + pattern_of(check[3:], ' ') + '\n', text('err')):
                raise Failed(f'{line}: says\n{text(out)}{text("err")}and not\norrery: {check[3:]}')
        elif check[0] != '=':
            at, kind, wanted = re.match(r'(2?)([|!]) (.*)', check).groups()
            shown = text('err' if at else out)
            if bool(re.search(line_of(wanted), shown, re.MULTILINE)) != (kind == '|'):
                raise Failed(f'{line}: {check}, but it says\n{shown[-1000:]}')

    def hold(self, expression):
        tree = ast.parse(expression.strip(), mode='eval')
        parts = tree.body.values if isinstance(tree.body, ast.BoolOp) and isinstance(tree.body.op, ast.And) else [tree.body]
        for part in parts:
            if not self.value(compile(ast.Expression(part), 'claim', 'eval')):
                sides = [part.left, *part.comparators] if isinstance(part, ast.Compare) else []
                values = [repr(self.value(compile(ast.Expression(side), 'claim', 'eval')))[:300] for side in sides]
                raise Failed('\n'.join(['does not hold: ' + ast.unparse(part), *values]))

    def each(self, head, block):
        of, values = re.fullmatch(r'each (.*?) in (.*)', head).groups()
        of, values = of.split(', '), shlex.split(self.filled(values))
        for i in range(0, len(values), len(of)):
            self.names.update(zip(of, values[i:i + len(of)], strict=True))
            self.block(block)

    def needs(self, what):
        if what == 'training':
            if not can_train:
                raise Skipped('the build has no StarPU')
        else:
            command, reason = what.split(' # ')
            if subprocess.run(command, shell=True, capture_output=True, check=False).returncode:
                raise Skipped(reason)

    def block(self, lines):
        at = 0

        def those(which):
            nonlocal at
            start = at
            while at < len(lines) and which(lines[at]):
                at += 1
            return lines[start:at]
        while at < len(lines):
            line = lines[at]
            at += 1
            while line.endswith('\\'):
                line = line[:-1] + lines[at].lstrip('\t')
                at += 1
            if line.startswith('--- '):
                content = those(lambda x: x != '---' and not x.startswith(FILE_ENDS))
                known = '\n'.join([*content, ''])
                for name, x in self.names.items():
                    known = known.replace('{%s}' % name, str(x))
                pathlib.Path(self.filled(line[4:])).write_text(known, encoding='utf-8')
            elif line.startswith(('$ ', '% ')):
                self.run(line, those(lambda x: re.match(r'=[>0-9a]|2?[|!] ', x)))
            elif line.startswith(('each ', 'if ')):
                inner = [x[1:] for x in those(lambda x: x.startswith('\t') or not x)]
                if line.startswith('each '):
                    self.each(line, inner)
                elif self.value(line[3:]):
                    self.block(inner)
            elif line.startswith('? '):
                self.hold(line[2:])
            elif line.startswith('needs '):
                self.needs(line[6:])
            elif line and line != '---' and line[0] != '#':
                exec(line, self.names)  # pylint: disable=exec-used


def script(path):
    needs = 'needs_training() { [ $can_train = yes ] || { echo the build has no StarPU && exit 77; }; }; '
    done = subprocess.run(['bash', '-euc', f'{needs}. {shlex.quote(str(path))}'],
                          env={**os.environ, 'orrery': orrery, 'source': source, 'can_train': sys.argv[3]},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise (Skipped if done.returncode == 77 else Failed)('\n'.join(done.stdout.strip().split('\n')[-5:]))


def tried(path):
    """What is wrong, as a line, or nothing; and what CPU time it took, in seconds."""
    before = cpu_s()
    return wrong(path), cpu_s() - before


def cpu_s():
    return sum(sum(resource.getrusage(of)[:2]) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def wrong(path):
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        try:
            if path.suffix == '.sh':
                script(path)
            else:
                Claim().block(path.read_text(encoding='utf-8').split('\n')[:-1])
        except Skipped as reason:
            return f'SKIP: {path.stem}: {reason}'
        except Exception as why:  # pylint: disable=broad-exception-caught
            return f'FAILED: {path.stem}: {"" if isinstance(why, Failed) else repr(why)}{why}'
        finally:
            os.chdir(source)
    return ''


def main():
    named = sys.argv[4:]
    every = [path for path in sorted(folder.iterdir()) if path.suffix in ('.sh', '.txt') and (not named or path.stem in named)]
    if missing := set(named) - {path.stem for path in every}:
        sys.exit(f'no claim {sorted(missing)[0]}')
    trains = [bool(re.search('can_train|needs[ _]training|if training', path.read_text(encoding='utf-8'))) for path in every]
    results = []
    for workers, training in (2, False), (1, True):
        with concurrent.futures.ProcessPoolExecutor(workers) as pool:
            those = list(itertools.compress(every, (x == training for x in trains)))
            results += zip(those, pool.map(tried, those))
    results, took = [said for _, (said, _) in results], sorted(((s, path.stem) for path, (_, s) in results), reverse=True)
    print(*sorted(filter(None, results)), sep='\n')
    print('slowest, in seconds of CPU time:', ', '.join(f'{name} {s:.1f}' for s, name in took[:12]))
    total = len(results) - sum(said.startswith('SKIP') for said in results)
    failures = sum(said.startswith('FAILED') for said in results)
    if not total:
        sys.exit(77)
    print(f'{100 * (total - failures) // total}%: Checks: {total}, Failures: {failures}, Errors: 0')
    sys.exit(failures > 0)


main()
