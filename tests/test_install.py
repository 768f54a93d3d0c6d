#!/usr/bin/env python3
"""What `meson install` puts on a machine serves those who embed it: headers that stand alone, a library that exports what
they declare, a program and a plug-in compiled with pkg-config alone, the man page and the completions.
Usage: test_install.py BUILD SOURCE"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from checks import check, finish

build, source = map(os.path.abspath, sys.argv[1:])
skipped = []


def have(program):
    if not shutil.which(program):
        skipped.append(f'no {program}')
    return shutil.which(program)


def run(*words, **options):
    """Its standard output; a failure is one of the test."""
    try:
        done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False, **options)
    except OSError as error:  # a program that was not compiled
        check(False, f'{words[0]}: {error}')
        return ''
    check(done.returncode == 0, f'{" ".join(words)}: {done.stderr[-2000:]}')
    return done.stdout


def write(name, text):
    with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
        file.write(text)
    return name


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def declared(path):
    """Functions and variables that a header declares, by its text: comments, macros, bodies and types left out."""
    text = re.sub(r'/\*.*?\*/', '', read(path), flags=re.DOTALL)
    text = re.sub(r'^#(?:.*\\\n)*.*$', '', text, flags=re.MULTILINE)
    text = re.sub(r'__attribute__\(\(.*?\)\)', '', text)
    while '{' in text:
        text = re.sub(r'static inline[^;{}]*\{[^{}]*\}|\{[^{}]*\}', lambda m: ';' if m[0].startswith('static') else '', text)
    return {function or variable for statement in text.split(';') if 'static' not in statement
            for function, variable in re.findall(r'\b(orr_\w+)\s*\(|\bextern\b[^;]*\b(orr_\w+)\s*$', statement)[:1]}


def check_headers():
    """Each compiles alone, so none includes a header that is not installed."""
    cflags = run('pkg-config', '--cflags', 'orrery').split()
    for path in headers:
        name = 'orrery/' + os.path.basename(path)
        run('cc', '-std=c11', '-Wall', '-Wextra', '-Wpedantic', '-Werror', *cflags, '-fsyntax-only',
            write('header.c', f'#include <{name}>\nextern int empty;\n'))
        if have('c++'):
            run('c++', '-std=c++11', '-Wall', '-Wextra', '-Wpedantic', '-Werror', *cflags, '-fsyntax-only',
                write('header.cpp', f'#include <{name}>\n'))


def check_exports():
    """Both ways; a plug-in gets the address of each."""
    exported = {line.split()[2].split('@')[0] for line in run('nm', '-D', '--defined-only', library).splitlines()
                if line.split()[1] != 'A'}
    names = set().union(*(declared(path) for path in headers))
    own = [path for path in glob.glob(os.path.join(source, 'src/**/*.h'), recursive=True) if '\nORR_BEGIN\n' in read(path)]
    shared = set().union(*(declared(path) for path in own))
    check(len(names) > 100, f'only {len(names)} declarations found in the headers')
    for name in sorted(names - exported):
        check(False, f'{name} is declared in a public header and not exported: put it between ORR_BEGIN and ORR_END')
    for name in sorted(shared ^ (exported - {'MPI_Test'})):  # which is MPI's (src/runtime/peers/look_mpi.c)
        check(False, f'{name} is not both exported and declared between ORR_BEGIN and ORR_END, for the command or for all')
    mine = read(os.path.join(source, 'tools/plug-in/mine.c'))
    includes = ''.join(f'#include <orrery/{os.path.basename(path)}>\n' for path in headers)
    uses = ''.join(f'\t(void *)&{name},\n' for name in sorted(names))
    write('every.c', f'{includes}void *const every[] = {{\n{uses}}};\n{mine}')
    run('cc', '-shared', '-fPIC', '-o', 'every.so', 'every.c', *run('pkg-config', '--cflags', 'orrery').split())
    plug_in = json.loads(run(orrery, 'simulate', 'towers:3,3/2', '-m', '16', '--schedule', './every.so', '--json') or '{}')
    check(plug_in.get('makespan', 0) > 0, 'a plug-in that refers to every public function has no makespan')


def check_embedding():
    """The program of README.md, against the command."""
    page = read(os.path.join(source, 'src/orrery/README.md'))
    [program] = re.findall(r'```c\n(.*?)```', page, re.DOTALL)
    write('makespan.c', program)
    [line] = re.findall(r'^    (cc .*)$', page, re.MULTILINE)
    run('sh', '-c', line + ' ' + ' '.join(sanitizers))
    options = {'shared': run('pkg-config', '--cflags', '--libs', 'orrery').split(),
               'static': run('pkg-config', '--static', '--cflags', '--libs', 'orrery').split()}
    places = [word[2:] for word in options['static'] if word.startswith('-L')]
    environment = {**os.environ, 'LD_LIBRARY_PATH': ':'.join(places)}
    for kind, words in options.items():
        words = [('-l:liborrery.a' if kind == 'static' else word) if word == '-lorrery' else word for word in words]
        run('cc', '-std=c11', '-Wall', '-Wextra', '-Werror', '-o', kind, 'makespan.c', *words, *sanitizers)
        needed = run('readelf', '-d', kind)
        check(('liborrery' in needed) == (kind == 'shared'), f'the {kind} program links the other library')
        for graph in 'chain:4', os.path.join(source, 'graphs/digits.dot'), os.path.join(source, 'graphs/study.dot'):
            said = run('./' + kind, graph, env=environment)
            told = json.loads(run(orrery, 'simulate', graph, '-w', '4', '-m', '8', '--json') or '{}')
            check(said.strip() == '%.9f' % told.get('makespan', -1), f'{kind}, {graph}: {said} is not {told.get("makespan")}')
        refused = subprocess.run(['./' + kind, 'nowhere.dot'], cwd=folder, stderr=subprocess.PIPE, text=True, env=environment)
        check(refused.returncode == 1 and 'nowhere.dot' in refused.stderr, f'{kind}: a missing graph: {refused.stderr}')


def compile_plug_in(name, *options):
    """The module, or None where it does not compile."""
    module = './' + name.replace('.c', '.so')
    run('cc', '-shared', '-fPIC', *options, '-o', module, name, *run('pkg-config', '--cflags', 'orrery').split())
    return module


def simulate(*words):
    """Makespan, and the most stage stashes of a worker."""
    told = json.loads(run(orrery, 'simulate', *words, '--json') or '{"makespan": -1, "worker": [{"peak_stash": -1}]}')
    return f'{told["makespan"]:g} ({max(worker["peak_stash"] for worker in told["worker"])})'


def check_plug_in():
    """The examples, outside of the source tree, with hidden visibility as well; what their page says of them."""
    shutil.copytree(os.path.join(source, 'tools/plug-in'), folder, dirs_exist_ok=True)
    shutil.copytree(os.path.join(source, 'graphs'), os.path.join(folder, 'graphs'))
    page = read(os.path.join(folder, 'README.md'))
    blocks = re.findall(r'```(?:c|python)\n(.*?)```', page, re.DOTALL)
    check(len(blocks) == 4 and blocks[2] == read(os.path.join(folder, 'heft.c')), 'the page shows another heft.c')
    check(blocks[3] in read(os.path.join(folder, 'heft.py')), 'the page shows another heft.py')
    check(blocks[2].count('\n') < 80, 'heft.c has 80 lines or more')
    write('first.c', blocks[0])
    write('parameters.c', '#include <orrery/schedule.h>\n' + blocks[1])
    run('cc', '-fsyntax-only', 'parameters.c', *run('pkg-config', '--cflags', 'orrery').split())
    schedules = {'`heft.c`': compile_plug_in('heft.c', '-Wall', '-Wextra', '-Werror'), '`gpipe`': 'gpipe', '`1f1b`': '1f1b'}
    for visibility in 'hidden', 'default':
        mine = compile_plug_in('mine.c', '-Wall', '-Wextra', '-Werror', f'-fvisibility={visibility}')
        for graph in 'towers:3,3/2', 'graphs/skip.dot':
            for plug_in, built_in in (mine, '1f1b'), (compile_plug_in('first.c'), 'gpipe'):
                words = [graph, '--workers', '4', '-m', '8', '--schedule']
                check(simulate(*words, plug_in) == simulate(*words, built_in), f'{graph}: {plug_in} is not {built_in}')
    rows = [row.strip('| ').split(' | ') for row in re.findall(r'^\| `.*-w .*$', page, re.MULTILINE)]
    [names] = [row.strip('| ').split(' | ')[1:] for row in re.findall(r'^\| `simulate` .*$', page, re.MULTILINE)]
    check(len(rows) > 5, f'only {len(rows)} rows of figures')
    for words, *figures in rows:
        for name, figure in zip(names, figures):
            is_now = simulate(*words.strip('`').split(), '--schedule', schedules[name])
            check(figure == is_now, f'tools/plug-in/README.md: {words}, {name}: {figure}, and it is {is_now}')
    check_python(schedules['`heft.c`'])
    check_sizes()


def check_python(heft):
    """heft.py writes the order of heft.c, links included."""
    links = '--latency', '1ms', '--bandwidth', '10GB/s'
    for graph, *words in (('graphs/studies/clip.dot', *links), ('graphs/studies/mmt.dot',), ('towers:4,2/2', '--costs', '1,2')):
        run(orrery, 'simulate', graph, '-w', '5', '-m', '8', *words, '--schedule', '1f1b', '-o', 'base.json')
        write('heft.json', run(sys.executable, 'heft.py', 'base.json'))
        ways = [json.loads(run(orrery, 'simulate', graph, '-w', '5', '-m', '8', *words, '--schedule', schedule, '--json'))
                for schedule in (heft, 'heft.json')]
        check(ways[0]['makespan'] == ways[1]['makespan'] and ways[0]['worker'] == ways[1]['worker'],
              f'{graph}: heft.py is not heft.c')


def check_sizes():
    """A plug-in whose headers have another size of any struct that it reads, or another version, is refused in a line."""
    sizes = re.findall(r'ORR_SIZE_OF\(struct (\w+)\)', read(os.path.join(os.path.dirname(headers[0]), 'schedule.h')))
    check(len(sizes) == 10, f'{sizes}')
    changes = [(rf'^struct {name} {{$', f'struct {name} {{ double more_;', f'struct {name} has ') for name in sizes]
    changes.append((r'(ORR_SCHEDULE_VERSION) (\d+)$', r'\1 7', 'made for version 7 of schedule.h, this is version 8'))
    for pattern, text, message in changes:
        shutil.rmtree(os.path.join(folder, 'other'), ignore_errors=True)
        shutil.copytree(os.path.dirname(headers[0]), os.path.join(folder, 'other/orrery'))
        changed = 0
        for path in glob.glob(os.path.join(folder, 'other/orrery/*.h')):
            new, n = re.subn(pattern, text, read(path), flags=re.MULTILINE)
            changed += n
            write(path, new)
        check(changed == 1, f'{pattern}: {changed} places')
        run('cc', '-shared', '-fPIC', '-w', '-Iother', '-o', 'other.so', 'mine.c')
        done = subprocess.run([orrery, 'simulate', 'chain:4', '--schedule', './other.so'], cwd=folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        check(done.returncode == 2 and done.stderr.count('\n') == 1 and './other.so: ' + message in done.stderr
              and 'compile it again' in done.stderr, f'{message}: exit code {done.returncode}: {done.stderr}')


def check_manual():
    """Every option that --help lists is on the page and is completed."""
    page = os.path.join(prefix, 'share/man/man1/orrery.1')
    completion = os.path.join(prefix, 'share/bash-completion/completions/orrery.bash')
    text = read(page).replace('\\-', '-')
    commands = re.findall(r'^  (\w+) ', run(orrery, '--help'), re.MULTILINE)
    check(len(commands) > 5, f'only {len(commands)} commands')

    def complete(*words):
        quoted = ' '.join(f"'{word}'" for word in words)
        return run('bash', '-c', f'. {completion}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; '
                   'compopt() { :; }; _orrery; printf "%s\\n" "${COMPREPLY[@]}"', env=path).split()
    for command in commands:
        options = re.findall(r'^ +(?:-\w, )?(--[\w-]+)', run(orrery, command, '--help'), re.MULTILINE)
        offered = {word.rstrip('=') for word in complete('orrery', command, '--')}
        check(options and offered == {*options, '--help'}, f'{command}: {offered ^ set(options)} differs in the completion')
        for option in options:
            check(option in text, f'{command}: {option} is not on the man page')
    check(complete('orrery', 'sim') == ['simulate'], 'orrery sim<TAB> is not simulate')
    check(complete('orrery', 'simulate', '--mem') == ['--memory='], '--mem<TAB> is not --memory=')
    check(complete('orrery', 'simulate', '--schedule', '=', '1f1b-v') == ['1f1b-v'], 'no schedule is completed')
    check(complete('orrery', 'train', '--on-nan', '=') == ['stop', 'skip'], '--on-nan=<TAB> is not stop, skip')
    check(os.path.getsize(os.path.join(prefix, 'share/zsh/site-functions/_orrery')) > 1000, 'no completion for zsh')
    if have('zsh'):
        run('zsh', '-fn', os.path.join(prefix, 'share/zsh/site-functions/_orrery'))
    if have('groff'):
        warnings = subprocess.run(['groff', '-man', '-Tutf8', '-ww', page], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True)
        check(not warnings.stderr and 'EXIT STATUS' in re.sub('\x1b\\[\\d*m|.\b', '', warnings.stdout), warnings.stderr[:500])


with tempfile.TemporaryDirectory(prefix='orrery-install.') as folder:
    path = {**os.environ}
    subprocess.run(['meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', folder], check=True)
    [orrery] = glob.glob(folder + '/**/bin/orrery', recursive=True)
    prefix = os.path.dirname(os.path.dirname(orrery))
    [library] = glob.glob(prefix + '/lib*/**/liborrery.so', recursive=True)
    headers = sorted(glob.glob(prefix + '/include/orrery/*'))
    [module] = glob.glob(prefix + '/lib*/**/orrery.pc', recursive=True)
    check(all(name.endswith('.h') for name in headers) and len(headers) == 13, f'headers: {headers}')
    check('${pcfiledir}' in read(module), 'orrery.pc is not relocatable: this build was set up before that; do it again')
    os.environ['PKG_CONFIG_PATH'] = ':'.join(filter(None, [os.path.dirname(module), os.environ.get('PKG_CONFIG_PATH')]))
    path['PATH'] = os.path.dirname(orrery) + ':' + os.environ['PATH']
    sanitizers = ['-fsanitize=address,undefined'] if 'libasan' in run('readelf', '-d', library) else []
    for part in check_headers, check_exports, check_embedding, check_plug_in, check_manual:
        part()
print(*(f'SKIP: {what}' for what in sorted(set(skipped))), sep='\n')
finish()
