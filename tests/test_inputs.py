#!/usr/bin/env python3
"""What the command reads: no output replaces it, and what is no plain file in its place is refused at once. The options come
from each verb's --help, and the names that a verb opens from strace, so that a new option or a new file is met by itself: an
option that names an input needs a sample here, or this fails. Usage: test_inputs.py ORRERY SOURCE few|all CAN_TRAIN"""
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from checks import check, finish

orrery, source = (os.path.abspath(path) for path in sys.argv[1:3])
everything, can_train = sys.argv[3] == 'all', sys.argv[4] == 'yes'
VERBS = {'simulate': '', 'compare': '', 'plan': '-w 2', 'profile': '', 'train': '--steps 1 --batch 8 -m 2', 'show': ''}
STUDY = 'digraph { node [forward="1ms" backward="2ms" activation="1kB"]; a -> b }\n'
MODEL = '''digraph { data="%s"; x [op=input columns="0:2"]; y [op=input columns=2]; a [op=linear features=4]
    b [op=linear features=2]; loss [op=softmax_cross_entropy]; x -> a -> b -> loss; y -> loss }\n'''
TIMES = {'worker': [{'order': ['0F0', '0B0', '0F1', '0B1'], 'start': [0, 3, 6, 9], 'end': [1, 5, 7, 12]},
                    {'order': ['1F0', '1B0', '1F1', '1B1'], 'start': [1, 2, 7, 8], 'end': [2, 3, 8, 9]}]}
PLUGIN = '''#include <orrery/schedule.h>
static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *x) { return s % p->n_workers; }
static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *x)
{ return 8 * (int64_t)b * p->n_stages + (d ? 2 * p->n_stages - s : s); }
static const struct orr_schedule mine = {.name = "mine", .compute = compute, .priority = priority};
ORR_PLUGIN(mine);
'''
# the words with which a verb reads a file of that option; several where it has several kinds; {} is the file
SAMPLES = {
    '--lengths': ['study.dot -m 4 --lengths lengths'],
    '--microbatch-costs': ['study.dot -m 4 --microbatch-costs costs.csv'],
    '--schedule': ['study.dot -m 4 --schedule order.csv', 'study.dot --schedule ./plug-in.so -m 4',
                   'study.dot -m 4 --schedule plan.cut'],
    '--machine': ['study.dot -m 4 --machine machine.dot'],
    '--measured': ['measured.cut --measured times.json'],
    '--data': ['model.dot --stages 2 --data other.csv', 'model.dot --stages 2 --data data.npy'],
    '--init': ['model.dot --stages 2 --init weights.safetensors'],
    '--checkpoint': ['model.dot --stages 2 --checkpoint run --resume --keep-best --evaluate-every 1 --steps 3'],
}
GRAPHS = ['study.dot -m 4', 'model.dot', 'plan.cut']


def run(*words, prefix=()):
    try:
        return subprocess.run([*prefix, orrery, *words], cwd=work, stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                              check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, b'', b'hangs\n')


def write(name, text):
    with open(os.path.join(work, name), 'w' if isinstance(text, str) else 'wb') as file:
        file.write(text)


def prepare():
    """One of every kind of file, where the verbs find it by the words above."""
    write('study.dot', STUDY)
    write('model.dot', MODEL % 'd.csv')
    rows = ''.join(f'{i},{i % 7},{i % 2}\n' for i in range(40))
    write('d.csv', rows)
    write('other.csv', rows)
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (40, 3), }".ljust(117) + '\n'
    write('data.npy', b'\x93NUMPY\x01\x00\x76\x00' + header.encode() + bytes(x for i in range(40) for x in (i, i % 7, i % 2)))
    write('lengths', '1\n2\n3\n4\n')
    write('costs.csv', 'stage,microbatch,pass,duration\n0,0,F,2ms\n')
    write('machine.dot', 'graph { a [repeat=2]; bandwidth="1GB/s" }\n')
    write('times.json', json.dumps(TIMES))
    write('plug-in.c', PLUGIN)
    subprocess.run(['cc', '-w', '-shared', '-fPIC', f'-I{source}/src', '-o', 'plug-in.so', 'plug-in.c'], cwd=work, check=True)
    for words in ('plan study.dot -w 2 -m 4 -o plan.cut', 'simulate study.dot -m 2 -o measured.cut',
                  'simulate study.dot -m 4 --csv order.csv'):
        done = run(*words.split())
        check(done.returncode == 0, f'{words}: {done.stderr}')
    order = json.load(open(os.path.join(work, 'measured.cut'), encoding='utf-8'))
    for told, worker in zip(TIMES['worker'], order['worker']):
        told['order'] = worker['order']
    write('times.json', json.dumps(TIMES))
    if can_train:
        done = run(*('train model.dot --stages 2 --steps 2 --batch 8 -m 2 --save-weights weights.safetensors --checkpoint run '
                     '--keep-best --evaluate-every 1').split())
        check(done.returncode == 0, f'train: {done.stderr}')


def options(verb):
    """Name -> what it takes, of each option of the verb that names a file or a folder, by the verb's own table."""
    text = run(verb, '--help').stdout.decode()
    lines = re.findall(r'^ +(?:-(\w), )?(?:    )?--([a-z-]+)(?:, --[a-z-]+)*=(\S+)', text, re.MULTILINE)
    return {'--' + name: takes for _, name, takes in lines if re.search('FILE|PLAN|DIR', takes)}


def is_input(verb, option):
    """A name that is not there is refused for not being there; but a folder of checkpoints, and what is still to be written,
    are made."""
    if option == '--checkpoint':
        return True
    done = run(verb, *GRAPHS[1].split(), *VERBS[verb].split(), option, 'nowhere.json')
    for name in os.listdir(work):
        if name.startswith('nowhere'):
            os.unlink(os.path.join(work, name))
    return b'nowhere.json: cannot open it' in done.stderr or b'a folder' in done.stderr


def commands():
    """(verb, its words, its outputs): each verb with each input that it has a sample for."""
    for verb in VERBS:
        named = options(verb)
        inputs = [o for o in named if o in SAMPLES or is_input(verb, o)]
        outputs = [o for o in named if o not in inputs]
        for option in inputs:
            check(option in SAMPLES, f'{verb} {option}: reads a file, and has no sample in test_inputs.py')
        for words in GRAPHS + [w for o in inputs for w in SAMPLES.get(o, [])]:
            if verb in ('plan', 'profile', 'show') and words.startswith('plan.cut'):
                continue  # they take no plan
            if verb in ('train', 'profile') and not (can_train and (words.startswith('model') or '--data' in words)):
                continue  # a study has nothing to compute
            known = words.split()
            if verb == 'show':
                known = known[:1]
            extra = VERBS[verb].split()
            if '--steps' in known:
                extra = extra[2:]
            if '-w' in extra and '--machine' in known:
                extra = []
            yield verb, known + extra, outputs


def opened(verb, words):
    """The names in the folder that the command opens to read them, by strace."""
    log = os.path.join(work, 'opens.strace')
    done = run(verb, *words, prefix=('strace', '-f', '-q', '-o', log, '-e', 'trace=open,openat', '-y'))
    check(done.returncode == 0, f'{verb} {" ".join(words)}: {done.stderr.decode()}')
    names = set()
    with open(log, encoding='utf-8', errors='replace') as file:
        for line in file:
            call = re.search(r'open(?:at\((?:AT_FDCWD(?:<[^>]*>)?|\d+<([^>]*)>), |\()"([^"]+)", ([A-Z_|]+).*= \d+<([^>]+)>', line)
            if not call or 'O_CREAT' in call[3] or 'O_DIRECTORY' in call[3] or 'O_TMPFILE' in call[3]:
                continue
            if 'O_WRONLY' not in call[3] and os.path.realpath(call[4]).startswith(os.path.realpath(work) + '/'):
                names.add(os.path.relpath(os.path.realpath(call[4]), os.path.realpath(work)))
    return sorted(name for name in names if os.path.isfile(os.path.join(work, name)))


def digests():
    found = {}
    for folder, _, names in os.walk(work):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, 'rb') as file:
                    found[path] = hashlib.sha256(file.read()).hexdigest()
    return found


def check_spared(verb, words, outputs, read):
    """Each file that is read, as each output, under other names of it."""
    before = digests()
    for name, option in itertools.product(read, outputs):
        os.link(os.path.join(work, name), os.path.join(work, 'hard'))
        os.symlink(name, os.path.join(work, 'soft'))
        # of a shard a link is another name, of which that name alone is replaced
        for same in [name, 'soft' if name.startswith('run/') else 'hard', 'soft', f'./{os.path.dirname(name)}/./{os.path.basename(name)}',
                     f'/proc/self/cwd/{name}'][:None if everything else 1]:
            done = run(verb, *words, option, same)
            check(done.returncode == 2 and re.search(b'would overwrite|is no list of stages', done.stderr)
                  and done.stderr.count(b'\n') == 1,
                  f'{verb} {" ".join(words)} {option} {same}: exit code {done.returncode}: {done.stderr.decode()}')
        for link in ('hard', 'soft'):
            os.unlink(os.path.join(work, link))
    check(before == digests(), f'{verb} {" ".join(words)}: an output took the place of an input')


def check_refused(verb, words, read):
    """A FIFO, an endless device and a folder in the place of each file that is read."""
    for name in read:
        path, kept = os.path.join(work, name), os.path.join(work, 'kept')
        for put in (os.mkfifo, lambda p: os.symlink('/dev/zero', p), os.mkdir):
            os.rename(path, kept)
            put(path)
            shutil.rmtree(aside := os.path.join(work, 'aside'), ignore_errors=True)
            if os.path.isdir(os.path.join(work, 'run')):
                shutil.copytree(os.path.join(work, 'run'), aside, symlinks=True,
                                ignore=lambda folder, names: [n for n in names if not os.path.isfile(os.path.join(folder, n))])
            done = run(verb, *words)
            last = done.stderr.decode().strip().rpartition('\n')[2]
            # of a checkpoint that cannot be read, another may be used: it is said
            check((done.returncode == 2 and last.startswith('orrery: ')) or
                  (name.startswith('run/') and done.returncode == 0),
                  f'{verb} {" ".join(words)}: {name} is {os.lstat(path).st_mode:o}: exit code {done.returncode}: {last}')
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.unlink(path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.rename(kept, path)


with tempfile.TemporaryDirectory() as work:
    prepare()
    if not shutil.which('strace'):
        print('SKIP: no strace (apt-get install strace): which files are opened is not known')
        sys.exit(77)
    # LeakSanitizer does not work under strace
    os.environ['ASAN_OPTIONS'] = os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0'
    pristine = os.path.join(work, '..', os.path.basename(work) + '.run')
    for verb, words, outputs in commands():
        if verb in ('train', 'profile') and not everything:
            continue
        if '--checkpoint' in words:
            shutil.rmtree(pristine, ignore_errors=True)
            shutil.copytree(os.path.join(work, 'run'), pristine)
        read = opened(verb, words)
        check(bool(read), f'{verb} {" ".join(words)}: opens nothing')
        if words[0] == 'model.dot' and verb not in ('train', 'show') and '--data' not in words:
            read_too = ['d.csv']
        else:
            read_too = []
        if '--checkpoint' in words:
            shutil.rmtree(os.path.join(work, 'run'))
            shutil.copytree(pristine, os.path.join(work, 'run'))
        check_spared(verb, words, outputs, read + read_too)
        check_refused(verb, words, read)
    shutil.rmtree(pristine, ignore_errors=True)
finish()
