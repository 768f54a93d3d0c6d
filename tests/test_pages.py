#!/usr/bin/env python3
"""Every page (*.md) is a page: it begins with a heading, headings are headings, tables have as many cells in each row as in the
first, links and files lead somewhere, commands and their options exist, and it has as many examples for test_readme.py as
pages.txt says. Tables in comments of C are rows still, and clang-format leaves them so.

test_pages.py ORRERY SOURCE [--write]       --write: pages.txt anew, for a change that means it
"""
import glob
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import checks
import pages

orrery, source = (os.path.realpath(path) for path in sys.argv[1:3])
ROOMS = ('src/', 'tools/', 'tests/', 'codelets/', 'graphs/')
# by the reader and the commands of the pages, or not ours
WRITTEN = {'graphs/mine.dot', 'graphs/data/made', 'schedules/mine.c', 'makespan.c', 'first.c', 'report.md', 'starpu.h'}
MPIRUN = {'--mca', '--bind-to'}
CODE = re.compile(r'`([^`\n]+)`')
TOOL = re.compile(r'(?:^|[\s(])(?:build/tools/)?orrery ((?!_)[a-z]+)((?: [^;|>&#]*)?)')


def check(holds, page, what):
    checks.check(holds, f'{page}: {what}')


def prose(text):
    """The lines that are no code, numbered."""
    text = re.sub(r'^```.*?^```$', lambda fenced: '\n' * fenced[0].count('\n'), text, flags=re.MULTILINE | re.DOTALL)
    return [(i, line) for i, line in enumerate(text.split('\n'), 1) if not line.startswith('    ')]


def cells(row):
    return len(re.findall(r'(?<!\\)\|', row.strip())) - 1


def slug(heading):
    return re.sub(r'[^\w\- ]', '', heading.lower().replace('`', '')).replace(' ', '-')


def headings(text):
    return {slug(line.lstrip('#').strip()) for _, line in prose(text) if line.startswith('#')}


def check_headings(page, text):
    check(re.match(r'# \S', text), page, 'the first line is no heading, such as "# Plans"')
    for i, line in prose(text):
        check(not line.startswith('\t'), page, f'line {i} begins with a tab')
        check(not line.startswith('#') or re.match(r'#{1,4} \S', line), page, f'line {i} is no heading: {line}')
        check(not re.search(r'\S.*\s##', line), page, f'line {i} has a heading inside: {line}')


def check_tables(page, text):
    head = None
    for i, line in prose(text):
        if not line.startswith('|'):
            check(not re.search(r'\|\s*\|\s*[`\w]', line), page, f'line {i} has a row of a table inside: {line}')
            head = None
            continue
        check(line.rstrip().endswith('|'), page, f'line {i}: the row has no end: {line}')
        if head is None:
            head, start = cells(line), i
        elif i == start + 1:
            check(re.fullmatch(r'\|(:?-+:?\|)+', line.replace(' ', '')), page, f'line {i}: no |---| under the first row: {line}')
        check(cells(line) == head, page, f'line {i}: {cells(line)} cells under {head}: {line}')


def exists(page, path):
    """As it stands, from the page's folder, from src/, or, without a folder, anywhere."""
    plain = re.sub(r'^\./', '', path).rstrip('/')
    places = [os.path.join(source, place, plain) for place in ('', os.path.dirname(page), 'src')]
    return plain in WRITTEN or any(glob.glob(place) for place in places) or ('/' not in plain and glob.glob(
        os.path.join(source, '[!.b]*/**', plain), recursive=True))


def check_files(page, text):
    for target in re.findall(r'\]\(([^)\s]+)\)', text):
        path, _, anchor = target.partition('#')
        if re.match('[a-z]+:', target):
            continue
        at = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        check(os.path.exists(os.path.join(source, at)), page, f'no {at} for a link')
        at = os.path.join(at, 'README.md') if os.path.isdir(os.path.join(source, at)) else at
        if anchor and at.endswith('.md') and os.path.exists(os.path.join(source, at)):
            check(anchor in headings(pages.read(source, at)), page, f'no heading for {target}')
    for code in CODE.findall(text):
        for word in re.findall(r'[^\s=:,()\[\]"\']+', code):
            word = word.rstrip('.')
            if re.search('[A-Z]{4}|X', word):  # NAME.c
                continue
            if word.lstrip('./').startswith(ROOMS) or re.fullmatch(r'[\w*/.-]*\w\.(?:c|h|cu|cpp|py|sh|md)', word):
                check(exists(page, word), page, f'no {word}, of `{code}`')
    for rows in re.findall(r'^\| file \|.*\n\|[-:| ]+\n((?:\|.*\n)+)', text, re.MULTILINE):
        for word in re.findall(r'`([\w./-]+)`', ' '.join(re.findall(r'^\|([^|]*)\|', rows, re.MULTILINE))):
            check(re.search(r'^\.|[A-Z]{4}', word) or exists(page, word) or exists(page, word + '.*'), page,
                  f'no {word} in a table of files')


def helps():
    """Of every command its options; None where this build has it not."""
    said = {}
    for path in glob.glob(os.path.join(source, 'tools/command/cmd_*.c')):
        verb = os.path.basename(path)[4:-2]
        told = subprocess.run([orrery, verb, '--help'], capture_output=True, text=True, check=False)
        said[verb] = set(re.findall(r'(?<![\w-])--?[a-z][\w-]*', told.stdout)) if told.returncode == 0 else None
    return said


def check_commands(page, text, options, words, tests):
    lines = [line.split(' # ')[0] for line in re.findall(r'^    (.*)$', text, re.MULTILINE)]
    for line in lines + CODE.findall(text):
        # a command that supervise starts stands behind --
        for verb, arguments in (found for part in line.split(' -- ') for found in TOOL.findall(part)):
            check(verb in options, page, f'no command {verb}: {line}')
            for option in re.findall(r'(?<= )--?[a-z][\w-]*', arguments) if options.get(verb) else []:
                check(option in options[verb] | {'-h', '--help'}, page, f'{verb} has no option {option}: {line}')
        for arguments in re.findall(r'meson test -C build\S* ([^#]*)', line):
            for name in re.findall(r'(?:^|(?<= ))[a-z][\w-]*(?=\s|$)', re.split(' {3}|&&|;', arguments)[0]):
                stem = re.sub('-emulated$', '', name)  # a test's other name
                check(f"'{name}'" in tests or f"'{stem}'" in tests, page, f'no test, benchmark or suite {name}: {line}')
    for code in CODE.findall(text):
        option = re.match(r'--[a-z][\w-]*(?=$|[ =])', code)
        check(not option or option[0] in words | MPIRUN, page, f'no command has {code}')


def check_comments():
    """A gap inside a line belongs to a table, whose lines begin with three blanks: elsewhere rows have flowed into a text."""
    for path in pages.files(source, '.c', '.h', '.cu', '.cpp'):
        text = pages.read(source, path)
        for comment in re.finditer(r'/\*.*?\*/', text, re.DOTALL):
            for i, line in enumerate(comment[0].split('\n'), text.count('\n', 0, comment.start()) + 1):
                row = re.match(r'\s*\*?(?:   |\t)', line) and re.match(r'\s*\*', line)
                check(row or '|' in line or not re.search(r'[\w;:,.\])] {2,}[\w(\[]', line.strip(' \t/*')), path,
                      f'line {i}: rows of a table have flowed together: {line.strip()}')


def check_format():
    """What clang-format does to a table of which one row is too long."""
    if not shutil.which('clang-format'):
        print('SKIP: there is no clang-format, to see whether it leaves tables')
        return
    rows = [' *   first   ' + 17 * 'long ' + 'and more than a row holds', ' *   second  is a row', ' *           of two lines']
    table = '\n'.join(['/* Rows:', ' *', *rows, ' */', 'int x;', ''])
    done = subprocess.run(['clang-format', '--style=file', '--assume-filename=' + os.path.join(source, 'src/x.c')], input=table,
                          capture_output=True, text=True, check=False)
    for row in rows[1:]:
        check(row in done.stdout.split('\n'), '.clang-format', f'a row of a table is not left alone:\n{done.stdout}{done.stderr}')


def check_counts(texts, write):
    path = os.path.join(source, 'tests/pages.txt')
    now = {page: len(pages.examples(text)) for page, text in texts.items()}
    if write:
        with open(path, 'w', encoding='utf-8') as file:
            file.writelines(f'{n} {page}\n' for page, n in now.items())
    recorded = {page: int(n) for n, page in (line.split() for line in pages.read(source, 'tests/pages.txt').splitlines())}
    for page in sorted(now.keys() | recorded.keys()):
        check(now.get(page) == recorded.get(page), page,
              f'{now.get(page)} examples, and tests/pages.txt says {recorded.get(page)}: where that is meant, test_pages.py --write')


texts = {page: pages.read(source, page) for page in pages.files(source, '.md')}
options = helps()
words = set(re.findall(r'(?<![\w-])--[a-z][\w-]*', '\n'.join(
    pages.read(source, path) for top in ('tools', '.ci') for path in pages.files(os.path.join(source, top), '')
    for path in [os.path.join(top, path)] if not path.endswith(('.md', '.svg', '.gz', '.png', '.npy')))))
tests = pages.read(source, 'tests/meson.build')
words |= set().union(*(said or () for said in options.values()))
for page, text in texts.items():
    check_headings(page, text)
    check_tables(page, text)
    check_files(page, text)
    check_commands(page, text, options, words, tests)
check_comments()
check_format()
check_counts(texts, '--write' in sys.argv)
check(len(texts) >= 20, source, f'{len(texts)} pages')
checks.finish()
