"""What the pages (*.md) of a tree say: their text, and the examples that test_readme.py runs and test_pages.py counts."""
import os
import re

EXAMPLE = re.compile(r'^    ((?:(?:build/tools/orrery|mpirun --oversubscribe|python3|cc|sed) |torchrun [^\n]*tools/torch/).*?)(?:\s+#.*)?$|`(build/tools/orrery [^`\n]+)`',
                     re.MULTILINE)


def files(source, *endings):
    """Every file of the tree with one of these endings, relative to it; nothing that is built."""
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(f for f in folders if not f.startswith(('build', '.', 'prefix', '__')))
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.relpath(os.path.join(folder, name), source)


def read(source, path):
    with open(os.path.join(source, path), encoding='utf-8') as file:
        return file.read()


def examples(text):
    """The commands to run; those with `...` are for a cluster."""
    return [command for command in map(''.join, EXAMPLE.findall(text)) if '...' not in command]
