#!/usr/bin/env python3
"""What tools/torch writes down of the library's structs is what a C compiler makes of the headers: the same members
and no others, each at its place, and the size of the whole. Usage: test_mirror.py SOURCE CC. PyTorch is not needed, nor a
library."""
import ctypes
import importlib
import pathlib
import re
import subprocess
import sys
import tempfile
import types

source, cc = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
package = types.ModuleType('orrery_torch')
package.__path__ = [str(source / 'tools/torch/orrery_torch')]
command = types.ModuleType('orrery_torch.command')  # which wants PyTorch
command.ORRERY = 'orrery'
sys.modules.update({'orrery_torch': package, 'orrery_torch.command': command})
structs = importlib.import_module('orrery_torch.library').STRUCTS

text = {header: re.sub(r'/\*.*?\*/', '', header.read_text(), flags=re.DOTALL) for header in (source / 'src/orrery').glob('*.h')}
headers = {name: header for header in sorted(text) for name in structs if re.search(rf'(?m)^struct {name} \{{', text[header])}
assert set(headers) == set(structs), set(structs) - set(headers)


def members(name):
    """Of a struct, as its header declares them."""
    body = re.search(rf'(?ms)^struct {name} \{{$(.*?)^\}}', text[headers[name]])[1]
    for declared in filter(str.strip, body.split(';')):
        function = re.search(r'\(\*(\w+)\)\(', declared)
        for one in [function[0]] if function else declared.split(','):
            yield re.findall(r'\w+', re.sub(r'\[.*', '', one))[-1]


wrong, mine, lines = [], [], []  # where and how large: (what, offset or 0, bytes), and the lines of C that print the latter two
for name, struct in structs.items():
    here, there = [field[0] for field in struct._fields_], list(members(name))
    wrong += [f'struct {name}: {field} is not in library.py' for field in there if field not in here]
    wrong += [f'struct {name}: {field} is not in {headers[name].name}' for field in here if field not in there]
    mine.append((f'struct {name}', 0, ctypes.sizeof(struct)))
    lines.append(f'printf("0 %zu\\n", sizeof(struct {name}));')
    for field in filter(there.__contains__, here):
        at = getattr(struct, field)
        mine.append((f'struct {name}: {field}', at.offset, at.size))
        lines.append(f'printf("%zu %zu\\n", offsetof(struct {name}, {field}), sizeof(((struct {name} *)0)->{field}));')
includes = '\n'.join(f'#include "orrery/{header.name}"' for header in sorted(set(headers.values())))
program = '#include <stddef.h>\n#include <stdio.h>\n%s\nint main(void)\n{\n%s\nreturn 0;\n}\n' % (includes, '\n'.join(lines))
with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder, 'places.c')
    file.write_text(program)
    subprocess.run([*cc, '-I', str(source / 'src'), '-o', f'{folder}/places', str(file)], check=True)
    found = subprocess.run([f'{folder}/places'], check=True, capture_output=True, text=True).stdout.splitlines()
for (what, *here), line in zip(mine, found, strict=True):
    there = list(map(int, line.split()))
    if there != here:
        wrong.append(f'{what}: {there[1]} bytes from byte {there[0]} on, and in library.py {here[1]} from {here[0]} on')
print('\n'.join(wrong) or f'{len(structs)} structs and their {len(mine) - len(structs)} members')
sys.exit(bool(wrong))
