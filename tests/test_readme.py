#!/usr/bin/env python3
"""The examples of every page (*.md), run as they stand there, in a copy of the tree's graphs: indented lines that begin with
the command, with mpirun, python3, sed or a compiler, and commands in backquotes that begin with build/tools/orrery. Those with `...`
are for a cluster. Usage: test_readme.py ORRERY SOURCE TRAIN MPI,
the last two yes or no."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

orrery, source = (os.path.realpath(path) for path in sys.argv[1:3])
can_train, can_mpi = (word == 'yes' for word in sys.argv[3:5])
EXAMPLE = re.compile(r'^    ((?:build/tools/orrery|mpirun --oversubscribe|python3|cc|sed) .*?)(?:\s+#.*)?$|`(build/tools/orrery [^`\n]+)`',
                     re.MULTILINE)


def examples():
    for folder, folders, names in os.walk(source):
        folders[:] = [f for f in folders if not f.startswith(('build', '.', 'prefix'))]
        for name in sorted(names):
            if name.endswith('.md'):
                with open(os.path.join(folder, name), encoding='utf-8') as page:
                    for command in map(''.join, EXAMPLE.findall(page.read())):
                        if '...' not in command:
                            yield os.path.relpath(os.path.join(folder, name), source), command


def needs_what_is_not_here(command):
    trains = ' train ' in command or ' profile ' in command or 'profiled.dot' in command or 'plan.json' in command
    embeds = 'makespan.c' in command  # test_install.py has it
    return embeds or (trains and not can_train) or (command.startswith('mpirun') and not can_mpi)


build = os.path.dirname(os.path.dirname(orrery))
environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
passed = failed = 0
with tempfile.TemporaryDirectory() as work:
    os.makedirs(os.path.join(work, 'build/tools'))
    os.symlink(orrery, os.path.join(work, 'build/tools/orrery'))
    os.symlink(os.path.join(source, 'src'), os.path.join(work, 'src'))
    os.symlink(os.path.join(source, 'tools'), os.path.join(work, 'tools'))
    shutil.copytree(os.path.join(source, 'graphs'), os.path.join(work, 'graphs'))
    subprocess.run(['meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', work + '/installed'], check=True)
    [module] = glob.glob(work + '/installed/**/orrery.pc', recursive=True)
    environment['PKG_CONFIG_PATH'] = ':'.join(filter(None, [os.path.dirname(module), os.environ.get('PKG_CONFIG_PATH')]))
    for page, command in examples():
        if needs_what_is_not_here(command):
            print(f'SKIP: {page}: {command}: the build has no StarPU, or no MPI')
            continue
        start = time.monotonic()
        done = subprocess.run(command, shell=True, cwd=work, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors='replace', check=False)
        print(f'{time.monotonic() - start:6.1f} s  {page}: {command}', flush=True)
        if done.returncode == 0:
            passed += 1
        else:
            failed += 1
            print(f'FAILED: exit code {done.returncode}: {done.stderr[-500:]}')
total = passed + failed
print(f'{100 * passed // max(total, 1)}%: Checks: {total}, Failures: {failed}, Errors: 0')
sys.exit(failed > 0 or total == 0)
