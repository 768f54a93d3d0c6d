#!/usr/bin/env python3
"""What tools/torch writes down of the library's structs is what a C compiler makes of the headers: every member at its place.
Usage: test_mirror.py SOURCE CC. PyTorch is not needed, nor a library."""
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

headers = sorted((source / 'src/orrery').glob('*.h'))
wanted = {name: header for header in headers for name in structs if re.search(rf'(?m)^struct {name} \{{', header.read_text())}
assert set(wanted) == set(structs), set(structs) - set(wanted)
places = [(name, field[0]) for name, struct in structs.items() for field in struct._fields_]
includes = '\n'.join(f'#include "orrery/{header.name}"' for header in sorted(set(wanted.values())))
lines = '\n'.join(f'printf("%zu\\n", offsetof(struct {name}, {field}));' for name, field in places)
program = f'#include <stddef.h>\n#include <stdio.h>\n{includes}\nint main(void)\n{{\n{lines}\nreturn 0;\n}}\n'
with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder, 'places.c')
    file.write_text(program)
    subprocess.run([*cc, '-I', str(source / 'src'), '-o', f'{folder}/places', str(file)], check=True)
    found = subprocess.run([f'{folder}/places'], check=True, capture_output=True, text=True).stdout.split()
wrong = [f'struct {name}: {field} is {there} bytes behind its begin, and {getattr(structs[name], field).offset} in library.py'
         for (name, field), there in zip(places, found, strict=True) if getattr(structs[name], field).offset != int(there)]
print('\n'.join(wrong) or f'{len(places)} members of {len(structs)} structs')
sys.exit(bool(wrong))
