#!/usr/bin/env python3
"""No function of the library is there for tests alone: every function that a header of src/ or codelets/ declares is used in
src/, codelets/ or tools/, and one that only its own file uses is static, unless a test wants it. Usage: test_users.py SOURCE"""
import collections
import os
import re
import sys

root = sys.argv[1]
# public, for programs that embed the library
EMBED = {'orr_run_parameters', 'orr_run_n_parameters'}
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*', re.DOTALL)
# at the first column, up to the name before the first bracket
DECLARED = re.compile(r'^(?![\s#}])[^;:{}=()]*?\b(\w+)\(', re.MULTILINE)


def words(*folders):
    """By file, how often each word stands there."""
    for folder in folders:
        for where, _, names in os.walk(os.path.join(root, folder)):
            for name in names:
                if name.endswith(('.c', '.h', '.cu', '.cpp')):
                    with open(os.path.join(where, name), encoding='utf-8') as file:
                        text = COMMENT.sub('', file.read())
                    yield os.path.relpath(os.path.join(where, name), root), text


files = dict(words('src', 'codelets', 'tools'))
count = {path: collections.Counter(re.findall(r'\w+', text)) for path, text in files.items()}
tested = set(re.findall(r'\w+', ' '.join(text for _, text in words('tests'))))
declared = {path: set(DECLARED.findall(text)) - {'alignas'} for path, text in files.items()}
# names that formulas.h puts together of the operators' names
formulas = {f'orr_{name}_{what}' for name in re.findall(r'\bX\((\w+),', files['codelets/formulas.h']) for what in ('of', 'slope')}
faults = checked = 0
for path in sorted(path for path in files if path.endswith('.h') and not path.startswith('tools')):
    for name in sorted(declared[path] - EMBED - formulas):
        own = [other for other in files if name in declared[other]]
        checked += 1
        if any(count[other][name] for other in files if other not in own):
            continue
        within = any(count[other][name] > 1 for other in own)
        if not within or not (name in tested or re.search(rf'\b(?:inline|ORR_ELEMENT)\b[^;:{{}}=()]*\b{name}\(', files[path])):
            faults += 1
            print(f'FAILED: {path}: {name} is used', 'by its own file alone: make it static' if within else
                  'by tests alone: move it to tests/' if name in tested else 'nowhere')
print(f'{checked} functions, {faults} faults')
sys.exit(bool(faults) or not checked)
