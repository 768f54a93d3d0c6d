#!/usr/bin/env python3
"""The house: a layer includes itself and the layers above it in the table of src/README.md, tools/ public headers alone, and no
files include each other in a circle. The same of the objects in a build folder: a file calls functions, and reads variables,
of its own layer and the layers above, and no files need each other in a circle. And src/REFERENCES.md has every paper that is
cited. Usage: test_layers.py SOURCE BUILD"""
import collections
import glob
import json
import os
import re
import subprocess
import sys

root, build = sys.argv[1:]
CITATION = re.compile(r'\[([A-Z][A-Za-z]+[0-9]{2}[A-Z]*|Separability)(?=[],])')
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def layers():
    """The first column of the table: layers from the ground up, as folders relative to the root."""
    with open(os.path.join(root, 'src/README.md'), encoding='utf-8') as page:
        names = re.findall(r'^\| `([a-z/.]+)/` \|', page.read(), re.MULTILINE)
    return [os.path.normpath(os.path.join('src', name)) for name in names]


def sources():
    for top in ('src', 'codelets', 'tools'):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if name.endswith(('.c', '.h', '.cu')):
                    yield os.path.relpath(os.path.join(folder, name), root)


def uncited():
    """Citations, such as [Qi24, appendix A], whose key is not in src/REFERENCES.md; and how many there are."""
    with open(os.path.join(root, 'src/REFERENCES.md'), encoding='utf-8') as page:
        keys = set(re.findall(r'^\| `\[(\w+)\]` \|', page.read(), re.MULTILINE))
    unknown, n_found = [], 0
    for top in ('src', 'codelets', 'tools', 'tests', 'graphs'):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in (n for n in names if n.endswith(('.c', '.h', '.cu', '.dot', '.md')) and n != 'REFERENCES.md'):
                path = os.path.relpath(os.path.join(folder, name), root)
                with open(os.path.join(root, path), encoding='utf-8') as file:
                    found = CITATION.findall(file.read())
                n_found += len(found)
                unknown += [f'{path} cites [{key}], which is not in src/REFERENCES.md' for key in found if key not in keys]
    return unknown, n_found


def included(path, files):
    with open(os.path.join(root, path), encoding='utf-8') as file:
        for name in INCLUDE.findall(file.read()):
            for folder in (os.path.dirname(path), 'src', 'codelets', ''):
                candidate = os.path.normpath(os.path.join(folder, name))
                if candidate in files:
                    yield candidate
                    break
            else:
                if not path.startswith('codelets/cuda'):
                    raise SystemExit(f'FAILED: {path} includes {name}, which is not in the tree')


def layer_of(path, order):
    """The innermost layer that holds path."""
    found = [layer for layer in order if path.startswith(layer + '/')]
    return max(found, key=len) if found else None


def module(path):
    """x.h and x.c are one, also where the header is public and lies in orrery/."""
    stem = re.sub(r'\.(c|h|cu)$', '', path)
    if stem.startswith('src/orrery/'):
        own = [p for p in files if p.startswith('src/') and os.path.basename(p) == os.path.basename(stem) + '.c']
        stem = own[0][:-2] if len(own) == 1 else stem
    return stem


def circles(graph):
    """Strongly connected sets of more than one file."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            circle = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(circle) > 1:
                found.append(circle)

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def wrong_words():
    """The library names quantities, [workers], and no options; the command's table makes options of them."""
    with open(os.path.join(root, 'tools/command.c'), encoding='utf-8') as file:
        table = set(re.findall(r'\{"(\[[a-z-]+\])", "-', file.read()))
    used = set()
    for path in sorted(p for p in files if p.startswith('src/')):
        with open(os.path.join(root, path), encoding='utf-8') as file:
            text = ' '.join(re.findall(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', file.read(), re.DOTALL))
        text = re.sub(r'/\*.*?\*/', '', text, flags=re.DOTALL)
        used.update(re.findall(r'\[[a-z-]{4,}\]', text))
        yield from (f'{path}: a message names an option, {option}' for option in
                    re.findall(r'(?<![\w-])(?:--[a-z-]+|-m)(?![\w-])', text))
    yield from (f'{name} in src and in the table of tools/command.c are not the same' for name in used ^ table)


def vector_twins():
    """Clang 14 gives the chooser of a function of several vector widths a global name: two alike do not link."""
    home = {}
    for path in sorted(p for p in files if p.startswith('codelets/')):
        with open(os.path.join(root, path), encoding='utf-8') as file:
            for name in re.findall(r'\bORR_VECTOR\s+static[^(;#]*?(\w+)\(', file.read()):
                if home.setdefault(name, path) != path:
                    yield f'{path} and {home[name]} both have an ORR_VECTOR function {name}()'


def objects():
    """(source, object) of every file that the build has compiled for the libraries and the command."""
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as commands:
        pairs = [(os.path.join(build, c['file']), c['output']) for c in json.load(commands)]
    for path in glob.glob(os.path.join(build, 'codelets/**/*.cu.o'), recursive=True):
        pairs.append((os.path.join(root, os.path.relpath(path, build)[:-2]), os.path.relpath(path, build)))
    for source, path in pairs:
        path = os.path.join(build, path)
        if os.path.realpath(source).startswith(os.path.realpath(build) + os.sep):
            continue  # generated: the messages of ONNX, the page of --html
        if not os.path.relpath(path, build).startswith('tests/') and os.path.exists(path):
            yield os.path.relpath(os.path.realpath(source), os.path.realpath(root)), path


def uses():
    """(user, name, definer) across the objects of the build, of all global names but the C library's."""
    sources_of, home, needed = {os.path.normpath(path): source for source, path in objects()}, {}, []
    listing = subprocess.run(['nm', '-A', '-P', '-g', *sources_of], check=True, capture_output=True, text=True).stdout
    for path, name, kind in re.findall(r'^(.*): (\S+) (\S)', listing, re.MULTILINE):
        if name.startswith('_'):
            continue  # tools/plugin.c replaces one of them
        if kind in 'Uwv':
            needed.append((sources_of[path], name))
        else:
            home[name] = sources_of[path]
    return [(source, name, home[name]) for source, name in sorted(needed) if name in home]


sys.setrecursionlimit(10000)

order, files, faults, checked = layers(), set(sources()), [], 0
graph = collections.defaultdict(set)
for path in sorted(files):
    layer = layer_of(path, order)
    if layer is None:
        faults.append(f'{path} is in no layer of src/README.md')
        continue
    for other in included(path, files):
        above = layer_of(other, order)
        checked += 1
        if above is None or order.index(above) > order.index(layer):
            faults.append(f'{path} includes {other}: upward')
        if path.startswith('tools/') and not other.startswith(('tools/', 'src/orrery/')):
            faults.append(f'{path} includes {other}, which is no public header')
        if module(path) != module(other):
            graph[module(path)].add(module(other))
unknown, n_citations = uncited()
faults += unknown
faults += wrong_words()
faults += vector_twins()
found = circles(graph)
faults += ['a circle: ' + ' '.join(sorted(circle)) for circle in found]

linked, n_uses = collections.defaultdict(set), 0
for source, name, other in uses():
    n_uses += 1
    if order.index(layer_of(other, order)) > order.index(layer_of(source, order)):
        faults.append(f'{source} uses {name} of {other}: upward')
    if source != other:
        linked[source].add(other)
found += circles(linked)
faults += ['a circle of objects: ' + ' '.join(sorted(circle)) for circle in circles(linked)]
upward = sum(fault.endswith(': upward') for fault in faults)
for fault in faults:
    print('FAILED:', fault)
print(f'{len(order)} layers, {len(files)} files, {checked} includes, {n_uses} uses in objects, '
      f'{n_citations} citations: {len(found)} circles, {upward} upward')
sys.exit(bool(faults) or not checked or not n_citations or not n_uses)
