#!/usr/bin/env python3
"""Trainings that are killed while they write checkpoints, and folders of checkpoints that are damaged: --resume comes
to the checkpoint of a training that nothing disturbed, to the bit, or refuses in one line where nothing is left to go
on from; and nothing outside of the folder is touched.
Usage: test_resume_harm.py kills ORRERY SOURCE N SEED KILL_AT.so
       test_resume_harm.py damage ORRERY SOURCE N SEED"""
import collections
import hashlib
import os
import pathlib
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import time

ORRERY, SOURCE = (str(pathlib.Path(path).resolve()) for path in sys.argv[2:4])
N, SEED = int(sys.argv[4]), int(sys.argv[5])
MOST_SECONDS = 120  # what takes longer hangs
MODEL = '''digraph {
	data="digits.csv"
	x [op=input columns="0:64" scale=0.0625]
	fc1 [op=linear features=16]
	act [op=relu]
	fc2 [op=linear features=10]
	digit [op=input columns="64"]
	loss [op=softmax_cross_entropy]
	x -> fc1 -> act -> fc2 -> loss
	digit -> loss
}
'''
draw = random.Random(SEED)
work = pathlib.Path(tempfile.mkdtemp())
WAYS = [['--stages', '1', '-w', '1'], ['--stages', '2', '-w', '2'], ['--stages', '2', '-w', '2', '--schedule', 'gpipe'],
        ['--stages', '2', '-w', '2', '--schedule', 'fsdp']]


class Wrong(Exception):
    """What must not be."""


def command(folder, *options):
    return [ORRERY, 'train', str(work / 'model.dot'), '--batch', '48', '-m', '4', '--checkpoint', str(folder), *options]


def run(words, **environment):
    try:
        return subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
                              timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        raise Wrong('hangs') from None


def said(job):
    """Its messages, without the progress."""
    return [line for line in job.stderr.splitlines() if line.startswith('orrery: ')]


def name_of(step):
    return f'step-{step:08}'


def finished(folder):
    """The steps there, by their names."""
    return sorted(int(path.name[5:]) for path in folder.glob('step-*'))


def tree(folder):
    """All that is in a folder: what it is, and what it holds. A link is not followed."""
    found = {}
    for path in sorted(folder.rglob('*')):
        about = path.lstat()
        found[str(path.relative_to(folder))] = (
            stat.S_IFMT(about.st_mode), about.st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(about.st_mode) else
            os.readlink(path) if stat.S_ISLNK(about.st_mode) else '')
    return found


def contents(folder):
    """The files of a checkpoint, or nothing."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} if folder.is_dir() else {}


# ---- kills ----

STEPS = 20


def kill_one(folder, calls, lasts, counts):
    """Start the training, or go on with it, and kill it: at a drawn call that changes the folder, or after a drawn
    time. Returns whether it was killed."""
    resume = ['--resume'] if finished(folder) else []
    before, had = max(finished(folder), default=0), len(finished(folder))
    words = command(folder, *draw.choice(WAYS), '--steps', str(STEPS), '--every', '1', '--keep', '2', *resume)
    environment, pause = dict(os.environ), None
    if draw.random() < 0.5:
        environment.update(LD_PRELOAD=sys.argv[6], KILL_AT=str(draw.randint(1, calls)))
    else:
        pause = draw.uniform(0, lasts)
    with open(work / 'err', 'w', encoding='utf-8') as err, \
            subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=err) as job:
        if pause is not None:
            time.sleep(pause)
            job.kill()
        try:
            code = job.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            job.kill()
            raise Wrong('hangs') from None
    if code not in (0, -9):
        raise Wrong(f'exit code {code}: ' + (work / 'err').read_text(encoding='utf-8'))
    if max(finished(folder), default=0) < before:
        raise Wrong(f'step {before} is lost')
    # two are kept; each kill may come between a new one and the removal of an old one
    if len(finished(folder)) > max(3, had + 1):
        raise Wrong(f'old ones stay: {finished(folder)}')
    if code:
        counts['while it wrote'] += any(folder.glob('.step-*.tmp'))
        counts['before the first checkpoint'] += not finished(folder)
    return code != 0


def kill_and_resume(calm, calls, lasts, counts):
    """One or several kills in a row. Returns how many."""
    folder, n_killed = work / 'killed', 0
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for _ in range(draw.choice([1, 1, 2, 3])):
        n_killed += kill_one(folder, calls, lasts, counts)
    resume = ['--resume'] if finished(folder) else []
    job = run(command(folder, *draw.choice(WAYS), '--steps', str(STEPS), '--every', '1', '--keep', '2', *resume))
    if job.returncode or said(job):
        raise Wrong('does not go on: ' + job.stderr)
    if contents(folder / name_of(STEPS)) != calm:
        raise Wrong('comes to another checkpoint')
    if list(folder.glob('.step-*')):
        raise Wrong('something unfinished is left')
    return n_killed


def kills():
    """Returns how many went wrong."""
    words = command(work / 'calm', *WAYS[1], '--steps', str(STEPS), '--every', '1', '--keep', '2')
    begin = time.monotonic()
    job = run(words, LD_PRELOAD=sys.argv[6], KILL_CALLS=str(work / 'calls'))
    lasts = time.monotonic() - begin
    calls = int((work / 'calls').read_text(encoding='utf-8')) if (work / 'calls').exists() else 0
    calm = contents(work / 'calm' / name_of(STEPS))
    if job.returncode or len(calm) != 2 or calls < 20 * STEPS:
        sys.exit(f'undisturbed, with {calls} calls: {job.stderr}')
    canary, before = work / 'calm', tree(work / 'calm')
    counts, n_killed, n_wrong = collections.Counter(), 0, 0
    while n_killed < N and n_wrong < 10:
        try:
            n_killed += kill_and_resume(calm, calls, lasts, counts)
            if tree(canary) != before:
                raise Wrong('something outside of the folder was touched')
        except Wrong as wrong:
            n_wrong += 1
            print(f'FAILED: after kill {n_killed}: {wrong}', flush=True)
    print(f'{n_killed} kills (seed {SEED}), each followed by a training that goes on: '
          + ', '.join(f'{n} {what}' for what, n in sorted(counts.items())) + f'; {n_wrong} went wrong')
    return n_wrong


# ---- damage ----

STEPS_THERE, LAST = [2, 4, 6], 8


def truncate(path):
    os.truncate(path, draw.randrange(path.stat().st_size))


def flip(path):
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def append(path):
    with open(path, 'ab') as file:
        file.write(draw.randbytes(draw.randint(1, 100)))


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def link(path):
    """To what has the same name outside, or to nothing."""
    remove(path)
    there = work / 'outside' / path.relative_to(work / 'harmed')
    path.symlink_to(draw.choice([there, os.path.relpath(there, path.parent), work / 'outside' / 'none']))


def hard_link(path):
    there = work / 'outside' / path.relative_to(work / 'harmed')
    remove(path)
    os.link(there, path)


def pipe(path):
    remove(path)
    os.mkfifo(path)


def folder_in_place(path):
    remove(path)
    path.mkdir()
    (path / 'notes').write_text('mine')


def file_in_place(path):
    remove(path)
    path.write_text('mine')


def device(path):
    remove(path)
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero


def may_make_devices():
    try:
        device(work / 'device')
        (work / 'device').unlink()
    except OSError:
        return False
    return True


def swap(path, other):
    aside = path.with_name('aside')
    path.rename(aside)
    other.rename(path)
    aside.rename(other)


def harm(folder, kinds):
    """Do one thing to it. Returns what, to which name in it, and which steps that damages."""
    kind, step = draw.choice(kinds), draw.choice(STEPS_THERE)
    place = folder / name_of(step)
    files = sorted(path.name for path in place.iterdir())
    if kind in (truncate, flip, append, hard_link):
        file = place / draw.choice(files)
        kind(file)
        return kind.__name__, file, {step}
    if kind is swap:
        other = draw.choice([s for s in STEPS_THERE if s != step])
        file, another = draw.sample(files, 2)
        first, second = draw.choice([(place, folder / name_of(other)), (place / file, folder / name_of(other) / file),
                                     (place / file, place / another)])
        swap(first, second)
        return 'swap', first, {step, other} if second.parent != place else {step}
    where = draw.choice(['file', 'file', 'step', '.lock', 'unfinished', 'later', 'last'])
    path = {'file': place / draw.choice(files), 'step': place, '.lock': folder / '.lock',
            'unfinished': folder / f'.step-{draw.choice([LAST, 99]):08}.tmp', 'later': folder / name_of(99),
            'last': folder / name_of(LAST)}[where]
    kind(path)
    return f'{kind.__name__} as {where}', path, {step} if where in ('file', 'step') else set()


def check_end(job, folder, calm, path, damaged):
    """It is either the checkpoint of the undisturbed training, or a refusal that the damage explains."""
    lines, last = said(job), folder / name_of(LAST)
    passed = [line for line in lines if line.endswith(('the one before it is tried', 'training goes on'))]
    if job.returncode == 0:
        if contents(last) != calm:
            raise Wrong('comes to another checkpoint')
        if lines != passed:
            raise Wrong('more lines than those of what was passed over')
        return 'went on'
    if len(lines) != len(passed) + 1:
        raise Wrong('not one line')
    if job.returncode == 1:
        if 'in its place: move it away' not in lines[-1]:
            raise Wrong('failed without need')
        return 'had no room for the last'
    if job.returncode != 2 or job.stdout:
        raise Wrong(f'exit code {job.returncode}')
    if path.name != '.lock' and damaged != set(STEPS_THERE):
        raise Wrong('refused without need')
    return 'refused'


def harm_and_resume(base, calm, outside, kinds, counts):
    folder = work / 'harmed'
    remove(folder)
    shutil.copytree(base, folder, symlinks=True)
    whole = {step: tree(folder / name_of(step)) for step in STEPS_THERE}
    what, path, damaged = harm(folder, kinds)
    try:
        job = run(command(folder, *draw.choice(WAYS), '--steps', str(LAST), '--every', '2', '--keep', '4', '--resume'))
        end = check_end(job, folder, calm, path, damaged)
    except Wrong as wrong:
        raise Wrong(f'{what}, {path.relative_to(folder)}: {wrong}') from None
    for step in set(STEPS_THERE) - damaged:
        if tree(folder / name_of(step)) != whole[step]:
            raise Wrong(f'{what}, {path.relative_to(folder)}: step {step}, which was whole, is lost')
    if tree(work / 'outside') != outside:
        raise Wrong(f'{what}, {path.relative_to(folder)}: something outside of the folder was touched')
    counts[end] += 1
    counts['passed over a damaged one'] += any('is tried' in line for line in said(job))
    return what.split()[0]


def make_base(base):
    """Steps 2, 4 and 6, each in two shards where there is mpirun."""
    words = command(base, *WAYS[1], '--steps', str(STEPS_THERE[-1]), '--every', '2', '--keep', '4')
    if shutil.which('mpirun'):
        run(['mpirun', '--oversubscribe', '-n', '2', *words], OMPI_ALLOW_RUN_AS_ROOT='1',
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', OMPI_MCA_orte_tmpdir_base=str(work))
    if finished(base) != STEPS_THERE:
        shutil.rmtree(base, ignore_errors=True)
        run(words)
    assert finished(base) == STEPS_THERE, finished(base)
    n_shards = len(list((base / name_of(STEPS_THERE[-1])).glob('shard-*')))
    if n_shards < 2:
        print('SKIP: no mpirun, or a build without MPI: checkpoints of one shard alone')
    return n_shards


def damage():
    """Returns how many went wrong."""
    base = work / 'base'
    n_shards = make_base(base)
    shutil.copytree(base, work / 'calm')
    job = run(command(work / 'calm', *WAYS[0], '--steps', str(LAST), '--every', '2', '--keep', '4', '--resume'))
    calm = contents(work / 'calm' / name_of(LAST))
    if job.returncode or said(job) or len(calm) != 2:
        sys.exit('undisturbed: ' + job.stderr)
    # all that a link may lead to is there, whole
    shutil.copytree(work / 'calm', work / 'outside')
    for name in (f'.step-{LAST:08}.tmp', f'.step-{99:08}.tmp', name_of(99)):
        shutil.copytree(work / 'calm' / name_of(LAST), work / 'outside' / name)
    outside = tree(work / 'outside')
    kinds = [truncate, flip, append, swap, link, link, hard_link, pipe, folder_in_place, file_in_place, remove]
    if may_make_devices():
        kinds.append(device)
    else:
        print('SKIP: no device may be made here: none was put in the place of a part')
    counts, done, n_wrong = collections.Counter(), collections.Counter(), 0
    while sum(done.values()) + n_wrong < N and n_wrong < 10:
        try:
            done[harm_and_resume(base, calm, outside, kinds, counts)] += 1
        except Wrong as wrong:
            n_wrong += 1
            print(f'FAILED: damage {sum(done.values()) + n_wrong}: {wrong}', flush=True)
    print(f'{sum(done.values()) + n_wrong} damaged checkpoints of {n_shards} shards (seed {SEED}): '
          + ', '.join(f'{n} {what}' for what, n in sorted(done.items())) + '. '
          + ', '.join(f'{n} {what}' for what, n in sorted(counts.items())) + f'; {n_wrong} went wrong')
    return n_wrong


try:
    (work / 'model.dot').write_text(MODEL, encoding='utf-8')
    shutil.copy(pathlib.Path(SOURCE) / 'graphs/data/digits.csv', work)
    sys.exit(1 if {'kills': kills, 'damage': damage}[sys.argv[1]]() else 0)
finally:
    shutil.rmtree(work)
