# SIGINT and SIGTERM let the step finish, write a checkpoint and end with 130 and 143; a second one ends at once; what was
# stopped goes on to the bit.
needs_training
cat >signals.py <<'END'
import os, re, signal, subprocess, sys, time

orrery, graph, tensors = sys.argv[1:]
os.environ['LC_ALL'] = 'C'


def start(*options):
    def heed():  # a shell has its background ignore SIGINT
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen([orrery, 'train', graph, '-w', '2', '-m', '2', '--batch', '24', *options], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, preexec_fn=heed)


def until_it_trains(process):
    for line in process.stderr:
        if line.startswith('step '):
            return
    sys.exit('it does not train')


# soon, since what is stopped is trained again from the beginning
def until_a_checkpoint(process, folder):
    while process.poll() is None and not (os.path.isdir(folder) and any(name.startswith('step-') for name in os.listdir(folder))):
        time.sleep(0.01)


def tensors_of(folder):
    return subprocess.run([tensors, folder], check=True, stdout=subprocess.PIPE).stdout


for number, schedule in (signal.SIGINT, '1f1b'), (signal.SIGTERM, 'gpipe'):
    folder = number.name
    process = start('--steps', '5000', '--every', '7', '--checkpoint', folder, '--schedule', schedule)
    until_a_checkpoint(process, folder)
    process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == 128 + number, (process.returncode, err)
    lines = [line for line in err.split('\n') if line.startswith('orrery: ')]
    assert not out and len(lines) == 1, (out, err)
    found = re.fullmatch(f'orrery: {number.name}: stopped after step ([0-9]+) of 5000; {folder} has a checkpoint of '
                         'it: --resume goes on from there', lines[0])
    assert found, err
    step = int(found[1])
    assert os.path.isdir(f'{folder}/step-{step:08}'), os.listdir(folder)
    for which, options in (folder, ['--resume']), ('calm', []):
        process = start('--steps', str(step + 3), '--every', '100000', '--checkpoint', which, *options)
        assert process.wait() == 0, process.stderr.read()
    assert tensors_of(folder) == tensors_of('calm')
    subprocess.run(['rm', '-r', 'calm'], check=True)

process = start('--steps', '5000')
until_it_trains(process)
process.send_signal(signal.SIGTERM)
assert process.wait() == 143
assert 'without --checkpoint nothing is kept' in process.stderr.read()

# both are there when it goes on
process = start('--steps', '5000', '--every', '7', '--checkpoint', 'twice')
until_a_checkpoint(process, 'twice')
for number in signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT:
    process.send_signal(number)
assert process.wait() in (-signal.SIGINT, -signal.SIGTERM), process.returncode
assert 'stopped after' not in process.stderr.read()
END
python3 signals.py "$orrery" "$source/graphs/digits.dot" "$source/tests/tensors"
