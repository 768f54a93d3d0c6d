#!/usr/bin/env python3
"""The examples of every page (*.md), run as they stand there, two pages at a time, each in a copy of the tree's graphs:
indented lines that begin with the command, with mpirun, python3, sed, a compiler or, for tools/torch, torchrun, and commands in
backquotes that begin with build/tools/orrery. Those with `...` are for a cluster. Those of tools/torch run under python3, or what
ORR_TORCH_PYTHON names; without torch they are skipped, and what needs their files. Usage: test_readme.py ORRERY SOURCE TRAIN MPI,
the last two yes or no."""
import concurrent.futures
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import pages

orrery, source = (os.path.realpath(path) for path in sys.argv[1:3])
can_train, can_mpi = (word == 'yes' for word in sys.argv[3:5])


def is_of_torch(command):
    return re.match(r'(?:python3|torchrun [^\n]*) ?tools/torch/', command)


def under_torch(command):
    """The same, by the Python that has it."""
    return re.sub('^torchrun', 'python3 -m torch.distributed.run', command).replace('python3', shlex.quote(torch_python), 1)


def files_of(command):
    return set(re.findall(r'(?<= )[\w-]+\.\w+(?= |$)', command))


def lacks_torch(command, left_out):
    lacks = not has_torch and (is_of_torch(command) or files_of(command) & left_out)
    left_out.update(files_of(command) if lacks else ())
    return lacks


def needs_what_is_not_here(command):
    trains = ' train ' in command or ' profile ' in command or 'profiled.dot' in command or 'plan.json' in command
    embeds = 'makespan.c' in command  # test_install.py has it
    return embeds or (trains and not can_train) or ('mpirun ' in command and not can_mpi)


build = os.path.dirname(os.path.dirname(orrery))
torch_python = os.environ.get('ORR_TORCH_PYTHON', 'python3')
has_torch = subprocess.run([torch_python, '-W', 'ignore', '-c', 'import torch'], capture_output=True, check=False).returncode == 0
# the package as it would be installed
environment = dict(os.environ, PYTHONPATH=os.path.join(source, 'tools/torch'), PYTHONDONTWRITEBYTECODE='1', ORRERY=orrery,
                   OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')


def run_page(page, work):
    """How many of its examples ran, and how many failed."""
    ran = failed = 0
    left_out = set()  # files of commands that were skipped for want of torch
    os.makedirs(os.path.join(work, 'build/tools'))
    os.symlink(orrery, os.path.join(work, 'build/tools/orrery'))
    os.symlink(os.path.join(source, 'src'), os.path.join(work, 'src'))
    os.symlink(os.path.join(source, 'tools'), os.path.join(work, 'tools'))
    shutil.copytree(os.path.join(source, 'graphs'), os.path.join(work, 'graphs'))
    for command in pages.examples(pages.read(source, page)):
        if lacks_torch(command, left_out):
            print(f'SKIP: {page}: {command}: {torch_python} has no torch: ORR_TORCH_PYTHON names another')
            continue
        if needs_what_is_not_here(command):
            print(f'SKIP: {page}: {command}: the build has no StarPU, or no MPI')
            continue
        start = time.monotonic()
        run = under_torch(command) if is_of_torch(command) else command
        done = subprocess.run(run, shell=True, cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors='replace', check=False)
        print(f'{time.monotonic() - start:6.1f} s  {page}: {command}', flush=True)
        ran += 1
        if done.returncode != 0:
            failed += 1
            print(f'FAILED: {page}: {command}: exit code {done.returncode}: {done.stderr[-500:]}')
    return ran, failed


with tempfile.TemporaryDirectory() as top, concurrent.futures.ThreadPoolExecutor(2) as pool:
    subprocess.run(['meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', top + '/installed'], check=True)
    [module] = glob.glob(top + '/installed/**/orrery.pc', recursive=True)
    environment['PKG_CONFIG_PATH'] = ':'.join(filter(None, [os.path.dirname(module), os.environ.get('PKG_CONFIG_PATH')]))
    done = list(pool.map(lambda at: run_page(at[1], f'{top}/{at[0]}'), enumerate(pages.files(source, '.md'))))
ran, failed = map(sum, zip(*done))
print(f'{100 * (ran - failed) // max(ran, 1)}%: Checks: {ran}, Failures: {failed}, Errors: 0')
sys.exit(failed > 0 or ran == 0)
