#!/usr/bin/env python3
"""The house: a layer includes itself and the layers above it in the table of src/README.md, tools/ what the library exports, and no
files include each other in a circle. A public header is of the layer that defines its functions, of several the first in the
table; one without functions is of the last layer among the headers that it includes. Functions in
structs that those below in the table give a layer to call are listed. The same of the objects in a build folder: a file calls functions, and reads variables,
of its own layer and the layers above, and no files need each other in a circle. And src/REFERENCES.md has every paper that is
cited; a tag is defined in one header, and a file of C has a name of its own. Installed headers name nothing that is not
installed. No files of the Python package import each other in a circle. Usage: test_layers.py SOURCE BUILD"""
import ast
import collections
import glob
import json
import os
import re
import subprocess
import sys

root, build = sys.argv[1:]
CITATION = re.compile(r'\[([A-Z][A-Za-z]+[0-9]{2}[A-Z]*|Separability)(?=[],])')
WHOLE = 'src/orrery/version.c'  # of the library as a whole
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


def public_layers(home):
    """{public header: its layer}, by where its functions are defined."""
    found, waiting = {}, {path for path in files if path.startswith('src/orrery/') and path.endswith('.h')}
    for path in sorted(waiting):
        with open(os.path.join(root, path), encoding='utf-8') as file:
            text = re.sub(r'/\*.*?\*/', '', file.read(), flags=re.DOTALL)
        own = {layer_of(home[name], order) for name in re.findall(r'\b(orr_\w+)\(', text) if name in home}
        if own - {'src/orrery'}:
            found[path] = min(own - {'src/orrery'}, key=order.index)
    for path in sorted(waiting - set(found)):
        found[path] = max((found.get(other, 'src/orrery') for other in included(path, files)), key=order.index, default='src/orrery')
    return found


def callbacks():
    """{(header, member): the higher layers} of functions in structs that layers above in the table call and those below give."""
    members, given = collections.defaultdict(set), collections.defaultdict(set)
    for path in sorted(p for p in files if p.startswith('src/')):
        with open(os.path.join(root, path), encoding='utf-8') as file:
            text = file.read()
        if path.endswith('.h'):
            for name in re.findall(r'^\t[\w *]+\(\*(\w+)\)\(', text, re.MULTILINE):
                members[name].add(path)
    for path in sorted(p for p in files if p.startswith('src/')):
        with open(os.path.join(root, path), encoding='utf-8') as file:
            names = set(re.findall(r'[.>](\w+) = (?!NULL)&?[a-z]\w*[,;]', file.read())) & set(members)
        near = set(included(path, files)) if names else set()
        near |= {header for other in near for header in included(other, files)}
        for name in names:
            for header in members[name] & near:
                if order.index(layer_of(path, order)) > order.index(public.get(header, layer_of(header, order))):
                    given[header, name].add(layer_of(path, order))
    return given


def exports(path):
    """Does the shared library export what the header declares? Those in orrery/ are installed, too."""
    with open(os.path.join(root, path), encoding='utf-8') as file:
        return '\nORR_BEGIN\n' in file.read()


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
    with open(os.path.join(root, 'tools/command/command.c'), encoding='utf-8') as file:
        table = re.search(r'quantities\[\] = \{(.*?)\}', file.read(), re.DOTALL)[1]
    table = {f'[{name}]' for name in re.findall(r'"([a-z-]+)"', table)}
    used = set()
    for path in sorted(p for p in files if p.startswith('src/')):
        with open(os.path.join(root, path), encoding='utf-8') as file:
            text = ' '.join(re.findall(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', file.read(), re.DOTALL))
        text = re.sub(r'/\*.*?\*/|python -m', '', text, flags=re.DOTALL)
        used.update(re.findall(r'\[[a-z-]{4,}\]', text))
        yield from (f'{path}: a message names an option, {option}' for option in
                    re.findall(r'(?<![\w-])(?:--[a-z-]+|-m)(?![\w-])', text))
    yield from (f'{name} in src and in the table of tools/command/command.c are not the same' for name in used ^ table)


def vector_twins():
    """Clang 14 gives the chooser of a function of several vector widths a global name: two alike do not link."""
    home = {}
    for path in sorted(p for p in files if p.startswith('codelets/')):
        with open(os.path.join(root, path), encoding='utf-8') as file:
            for name in re.findall(r'\bORR_VECTOR\s+static[^(;#]*?(\w+)\(', file.read()):
                if home.setdefault(name, path) != path:
                    yield f'{path} and {home[name]} both have an ORR_VECTOR function {name}()'


def tags_twice():
    """A struct, union or enum of a header means one thing."""
    home = {}
    for path in sorted(p for p in files if p.endswith('.h')):
        with open(os.path.join(root, path), encoding='utf-8') as file:
            for tag in re.findall(r'^(?:struct|union|enum)\s+(\w+)\s*\{', file.read(), re.MULTILINE):
                if home.setdefault(tag, path) != path:
                    yield f'{path} and {home[tag]} both define {tag}'


def stems_twice():
    """A file of C has a name of its own; an operator's descriptor has that of its kernels."""
    home = {}
    for path in sorted(p for p in files if p.startswith(('src/', 'codelets/')) and p.endswith('.c')):
        stem = os.path.basename(path)
        if not path.startswith('codelets/operators/') and home.setdefault(stem, path) != path:
            yield f'{path} and {home[stem]} have one name'


def words_not_installed():
    """The installed headers stand alone: their comments name no other header, and no function or struct that none of them
    declares; a struct that a function makes is defined there, or freed by a function of its own."""
    text = {}
    for path in (p for p in files if p.startswith('src/orrery/') and p.endswith('.h')):
        with open(os.path.join(root, path), encoding='utf-8') as file:
            text[path] = file.read()
    code = re.sub(r'/\*.*?\*/', '', ' '.join(text.values()), flags=re.DOTALL)
    known = set(re.findall(r'\b(?:orr|ORR)_\w+', code)) | {os.path.basename(path) for path in text}
    for path in sorted(text):
        said = ' '.join(re.findall(r'/\*.*?\*/', text[path], re.DOTALL))
        yield from (f'{path} names {word}, which no installed header declares' for word in
                    re.findall(r'\b(?:orr|ORR)_\w+|[\w/]+\.h\b', said) if word not in known)
    for name in sorted(set(re.findall(r'struct (orr_\w+) \*\*', code))):
        if not re.search(rf'(struct {name} \{{|{name}_(destroy|close)\()', code):
            yield f'struct {name} is made by a function of an installed header, and none defines it'


def objects():
    """(source, object) of every file that the build has compiled for the libraries and the command."""
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as commands:
        pairs = [(os.path.join(build, c['file']), c['output']) for c in json.load(commands)]
    for path in glob.glob(os.path.join(build, 'codelets/**/*.cu.o'), recursive=True):
        pairs.append((os.path.join(root, os.path.relpath(path, build)[:-2]), os.path.relpath(path, build)))
    for source, path in pairs:
        path = os.path.join(build, path)
        if os.path.realpath(source).startswith(os.path.realpath(build) + os.sep):
            continue  # generated: the page of --html
        if 'liborrery_alone.a.p' in path:
            continue  # in the place of the runtime, which is in the other program
        if not os.path.relpath(path, build).startswith('tests/') and os.path.exists(path):
            yield os.path.relpath(os.path.realpath(source), os.path.realpath(root)), path


def uses():
    """(user, name, definer) across the objects of the build, of all global names but the C library's."""
    sources_of, home, needed = {os.path.normpath(path): source for source, path in objects()}, {}, []
    listing = subprocess.run(['nm', '-A', '-P', '-g', *sources_of], check=True, capture_output=True, text=True).stdout
    for path, name, kind in re.findall(r'^(.*): (\S+) (\S)', listing, re.MULTILINE):
        if name.startswith('_'):
            continue  # of the compiler
        if kind in 'Uwv':
            needed.append((sources_of[path], name))
        else:
            home[name] = sources_of[path]
    return [(source, name, home[name]) for source, name in sorted(needed) if name in home]


def python_imports():
    """{file of the Python package, or of its peer: those that it imports, for types too}."""
    top = os.path.join(root, 'tools/torch')
    modules = {os.path.relpath(path, top)[:-3]: path for folder in ('orrery_torch', 'peer')
               for path in glob.glob(os.path.join(top, folder, '**/*.py'), recursive=True)}
    found = {}
    for name, path in modules.items():
        with open(path, encoding='utf-8') as file:
            tree = ast.parse(file.read())
        found[name] = set()
        for node in (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)):
            folder = name.split('/')[:-node.level] if node.level else []
            base = '/'.join(folder + (node.module.split('.') if node.module else []))
            names = {base} | {f'{base}/{alias.name}' for alias in node.names}
            found[name] |= names & set(modules) - {name}
            if base.startswith('peer') and not name.startswith('peer'):
                faults.append(f'tools/torch/{name}.py imports {base}, which is not installed')
    return found


sys.setrecursionlimit(10000)

order, files, faults, checked = layers(), set(sources()), [], 0
used = uses()
public = public_layers({name: other for _, name, other in used})
graph = collections.defaultdict(set)
for path in sorted(files):
    layer = layer_of(path, order)
    if layer is None:
        faults.append(f'{path} is in no layer of src/README.md')
        continue
    layer = public.get(path, layer)
    for other in included(path, files):
        above = public.get(other, layer_of(other, order))
        checked += 1
        if path == WHOLE:
            continue
        if above is None or order.index(above) > order.index(layer):
            faults.append(f'{path} includes {other}: upward')
        if path.startswith('tools/') and not other.startswith('tools/') and not exports(other):
            faults.append(f'{path} includes {other}, of which the library exports nothing')
        if module(path) != module(other):
            graph[module(path)].add(module(other))
unknown, n_citations = uncited()
faults += unknown
faults += wrong_words()
faults += vector_twins()
faults += tags_twice()
faults += words_not_installed()
faults += stems_twice()
graph.update(python_imports())
found = circles(graph)
faults += ['a circle: ' + ' '.join(sorted(circle)) for circle in found]

linked, n_uses = collections.defaultdict(set), 0
for source, name, other in used:
    n_uses += 1
    if order.index(layer_of(other, order)) > order.index(layer_of(source, order)):
        faults.append(f'{source} uses {name} of {other}: upward')
    if source != other:
        linked[source].add(other)
found += circles(linked)
faults += ['a circle of objects: ' + ' '.join(sorted(circle)) for circle in circles(linked)]
given = callbacks()
for (header, name), givers in sorted(given.items()):
    print(f'{name}() of {header} is given by', ', '.join(sorted(givers)))
upward = sum(fault.endswith(': upward') for fault in faults)
for fault in faults:
    print('FAILED:', fault)
print(f'{len(order)} layers, {len(files)} files, {checked} includes, {n_uses} uses in objects, '
      f'{n_citations} citations: {len(found)} circles, {upward} upward, {len(given)} functions given')
sys.exit(bool(faults) or not checked or not n_citations or not n_uses)
