#!/usr/bin/env python3
"""tools/gpu/gpu-check with an orrery, a nvidia-smi and a PyTorch that only say what they are told to: parts, limits, --resume, the
report, and that no part passes without having compared anything. Usage: test_gpu_check.py SOURCE"""
import argparse
import glob
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from checks import check, finish

tree = os.path.abspath(sys.argv[1])
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(tree, 'tools'))
from gpu.build import Build, counters_in, source_of, tests_in  # noqa: E402
from gpu.check import Check, Part  # noqa: E402
from gpu.report import Report  # noqa: E402

# what each part needs to pass: the answers of a good device; `told` of a case replaces some
GOOD = {'off': 0, 'no_device': '', 'fast': 0.001, 'moved_bytes': 5, 'kernels_a_block': 7, 'makespan': 0.01, 'simulated': 0.0102, 'torch': 0.0015,
        'test_code': 0, 'test_text': '100%: Checks: 7, Failures: 0, Errors: 0',
        'streams': 0, 'used': 0, 'name': 'NVIDIA H100 80GB HBM3', 'steps': 0, 'hang': '', 'exit': 0, 'schedules': 'gpipe'}
ORRERY = '''#!/bin/sh
. {told}
echo "$*" >>{calls}
verb=$1 graph=$2 loss=/dev/null n=10 device='' more=0 memory='' before='' moved=''
for word; do
	case $before in
	--loss) loss=$word ;;
	--steps) n=$word ;;
	--device) device=$word ;;
	--streams) more=$streams ;;
	--memory) memory=$word ;;
	esac
	before=$word
done
[ $verb != "$hang" ] || exec sleep 600
case $verb in
schedules) for name in $schedules; do echo "$name   what it is"; done ;;
show) echo '{{"operators": [{{"op": "linear", "forward_flop": 100000000, "backward_flop": 100000000, "weight_flop": 100000000}}]}}' ;;
simulate) printf '{{\\n"makespan": %s\\n}}\\n' $simulated ;;
train)
	if [ $device = cpu ]; then
		off=0 more=0
	else
		[ ! "$no_device" ] || {{ echo "orrery: --device cuda: no device: $no_device; take --device cpu" && exit 2; }}
		[ $exit = 0 ] || exit $exit
		n=$((n - steps))
	fi
	if [ $memory ]; then
		moved='{{"from": "CUDA 0", "to": "NUMA 0", "bytes": '$moved_bytes', "transfers": 1}}'
		echo $used >{used}
		sleep 0.3
		echo 0 >{used}
	fi
	awk -v n=$n -v off=$off -v more=$more -v loss=$loss 'BEGIN {{
		print "step,samples,loss" >loss
		for (i = 0; i < n; i++)
			printf "%d,0,%.17g\\n", i + 1, (2 - 0.01 * i) * (1 + off + more) >loss
	}}'
	printf 'step 1 of some\\n{{\\n"step_seconds": %s, "samples_per_second": 7, "job_seconds": 1e-6, "makespan": %s, "moved": [%s]\\n}}\\n' \\
		$fast $makespan "$moved"
	case $graph in *towers_12*) blocks=24 ;; *) blocks=18 ;; esac
	kernels=$((100 + n * (50 + blocks * kernels_a_block)))
	echo '{{"kernels": '$kernels', "sets": 0, "dropped": 0, "calls": {{"cuLaunchKernel": '$kernels'}},
		"copies": {{"host to device": ['$n', '$((4 * n))']}}}}' >"${{ORRERY_LAUNCHES:-/dev/null}}"
	;;
esac
'''
TORCH = '''#!/bin/sh
. {told}
[ $torch != 0 ] || {{ echo "ModuleNotFoundError: No module named 'torch'" && exit 1; }}
for word; do
	case $before in
	--mode) modes=$word ;;
	--batch) batches=$word ;;
	esac
	before=$word
done
IFS=,
for mode in $modes; do
	for batch in $batches; do
		echo '{{"mode": "'$mode'", "batch": '$batch', "step_seconds": '$torch', "samples_per_second": 7}}'
	done
done
'''
SMI = '''#!/bin/sh
. {told}
case $1 in
*memory.used*) cat {used} ;;
*) echo "$name, 580.1, 81559 MiB" ;;
esac
'''
TEST = '''#!/bin/sh
. {told}
echo "$test_text"
exit $test_code
'''


def write(name, text, mode=0o755):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def set_up():
    """A command, a Python and a nvidia-smi; nothing of a toolkit in PATH but what gpu-check itself needs."""
    places = {'told': os.path.join(folder, 'told'), 'calls': os.path.join(folder, 'calls'),
              'used': os.path.join(folder, 'used')}
    write('used', '0')
    write('bin/orrery', ORRERY.format(**places))
    write('bin/test_cuda_kernels', TEST.format(**places))
    write('path/nvidia-smi', SMI.format(**places))
    write('bin/torch', TORCH.format(**places))
    # in the place of what a toolkit and a compiler make
    write('build/launches.so', '')
    os.utime(os.path.join(folder, 'build/launches.so'), (2**31, 2**31))


def start(told, *words):
    write('told', ''.join(f'{name}={shlex.quote(str(value))}\n' for name, value in {**GOOD, **told}.items()))
    write('calls', '')
    env = {**os.environ, 'PATH': os.path.join(folder, 'path') + ':' + os.environ['PATH']}
    return subprocess.Popen([sys.executable, os.path.join(tree, 'tools/gpu/gpu-check'), '--orrery', os.path.join(folder, 'bin/orrery'),
                             '--python', os.path.join(folder, 'bin/torch'), '--build', os.path.join(folder, 'build'),
                             '--out', os.path.join(folder, 'out'), '--seconds', '100000', *words], env=env, stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run(told, *words):
    process = start(told, *words)
    text, _ = process.communicate()
    return process.returncode, text, report()


def report():
    with open(os.path.join(folder, 'out/report.json'), encoding='utf-8') as file:
        told = json.load(file)
    return {**told, 'by': {part['name']: part for part in told['parts']}}


def calls():
    with open(os.path.join(folder, 'calls'), encoding='utf-8') as file:
        return [line for line in file.read().splitlines() if line.startswith('train') and '--help' not in line]


# ---- parts alone ----

def check_status():
    """What a part may call itself."""
    def end(work, skipped=None):
        part = Part('a', 1)
        work(part)
        part.end(skipped)
        return part.status

    check(end(lambda p: None) == 'SKIP', 'a part that compared nothing passes')
    check(end(lambda p: p.figures.update(a=1)) == 'SKIP', 'figures alone are no comparison')
    check(end(lambda p: p.compare('x', True)) == 'PASS', 'one good comparison')
    check(end(lambda p: [p.compare('x', True), p.compare('y', False)]) == 'FAIL', 'one bad comparison of two')
    check(end(lambda p: p.compare('x', False), 'no time') == 'FAIL', 'what is wrong stays so when the rest is skipped')
    check(end(lambda p: p.compare('x', True), 'no time') == 'SKIP', 'half of a part')
    check(end(lambda p: p.target('t', 1.0, at_least=1)) == 'PASS', 'at least')
    check(end(lambda p: p.target('t', 0.9, at_least=1)) == 'FAIL', 'less than at least')
    check(end(lambda p: p.target('t', 1.1, at_most=1)) == 'FAIL', 'more than at most')
    check(end(lambda p: p.target('t', 0, at_most=0)) == 'PASS', 'none')
    check(end(lambda p: p.target('t', None, at_least=1)) == 'SKIP', 'a figure that was not measured')
    check(end(lambda p: [p.target('t', 5, at_least=1, why='no device'), p.compare('x', True)]) == 'SKIP', 'not to be judged')


def check_limits():
    """A command is ended with the part, or with all of them; what it started goes too."""
    told = Report(os.path.join(folder, 'limits'), {'source': 's', 'device': 'd'}, False)
    check_ = Check(tree, told, 600)
    mark = f'600.{os.getpid()}'

    def slow(part):
        check_.must(['sh', '-c', f'sleep {mark} & sleep {mark}'])

    check_.part('slow', 1, 0, slow)
    check_.part('next', 60, 0, lambda p: p.compare('x', True))
    check_.part('broken', 60, 0, lambda p: {}['key'])
    check_.part('wrong', 60, 0, lambda p: check_.must(['false']))
    check_.part('absent', 60, 0, lambda p: check_.must(['./no-such-command']))
    check_.end = time.monotonic() + 1
    check_.part('late', 60, 0, slow)
    check_.part('later', 60, 10, lambda p: p.compare('x', True))
    found = {p['name']: (p['status'], p.get('why', '')) for p in told.parts}
    check(found['slow'] == ('FAIL', "sh: the part's time was up"), found['slow'])
    check(found['next'][0] == 'PASS', 'a part after one that failed')
    check(found['broken'] == ('FAIL', "KeyError: 'key'"), found['broken'])
    check(found['wrong'] == ('FAIL', 'false: exit code 1: '), found['wrong'])
    check(found['absent'][0] == 'FAIL', found['absent'])
    check(found['late'][0] == 'SKIP' and '--resume' in found['late'][1], found['late'])
    check(found['later'][0] == 'SKIP' and '--resume' in found['later'][1], found['later'])
    end = time.monotonic() + 30  # a killed process is gone when the machine comes to it, not when kill returns
    while any(mark in words for words in running()) and time.monotonic() < end:
        time.sleep(0.05)
    check(not any(mark in words for words in running()), 'what was ended runs on')


def running():
    """The words of every process, but of those that have ended and were not waited for."""
    for path in glob.glob('/proc/[0-9]*/cmdline'):
        try:
            with open(path, encoding='utf-8', errors='replace') as file:
                yield file.read().split('\0')
        except OSError:
            pass


def check_build():
    """Whether packed programs are taken, and which tests need a device."""
    told = [{'cmd': [f'/b/tests/{name}', 'x'], 'suite': suite} for name, suite in (
        ('one', ['orrery:cuda']), ('two', ['orrery:graphs']), ('three', ['orrery:run', 'orrery:cuda']), ('one', ['orrery:cuda']))]
    check(tests_in(told) == ['/b/tests/one', '/b/tests/three'], tests_in(told))
    told = [{'cmd': ['/b/tests/count_launches', 'x']}, {'cmd': ['/b/tests/bench_train']}]
    check(counters_in(told) == ['/b/tests/count_launches'] and counters_in(told[1:]) == [], counters_in(told))
    before = source_of(tree)
    with tempfile.TemporaryDirectory() as copy:
        for name in ('codelets', 'src'):
            shutil.copytree(os.path.join(tree, name), os.path.join(copy, name))
        first = source_of(copy)
        for name, is_source in (('src/README.md', False), ('src/meson.build', True), ('codelets/cpu.c', True)):
            with open(os.path.join(copy, name), 'a', encoding='utf-8') as file:
                file.write('\n')
            check((source_of(copy) != first) == is_source, f'a line more in {name}')
            first = source_of(copy)
    check(before == source_of(tree), 'one source, one sum')

    write('packed/orrery-prefix/lib/pkgconfig/starpu-1.4.pc', 'cudadir=/nowhere\n')
    program = write('packed/orrery-prefix/built/orrery', '#!/bin/sh\nexit 0\n')
    write('packed/orrery-prefix/built/test_cuda_kernels', '')
    write('packed/orrery-prefix/built/source', 'abc\n')
    file = os.path.join(folder, 'packed.tar.gz')
    options = argparse.Namespace(build=os.path.join(folder, 'built'), prefix=file, device='cuda', from_source=False, orrery=None)
    changes = [(lambda: None, ''), (lambda: write('packed/orrery-prefix/built/source', 'xyz'), 'of another source, xyz'),
               (lambda: write('packed/orrery-prefix/built/source', 'abc'), ''),
               (lambda: write(program, '#!/bin/sh\necho no libcudart.so; exit 127\n'), 'no libcudart.so'),
               (lambda: os.remove(os.path.join(folder, 'packed/orrery-prefix/built/source')), 'has no programs')]
    for i, (change, expected) in enumerate(changes):
        change()
        subprocess.run(['tar', '-C', os.path.join(folder, 'packed'), '-czf', file, 'orrery-prefix'], check=True)
        os.utime(file, ns=(i * 10**9, i * 10**9))  # a file of another time is another file
        build = Build(Check(tree, Report(os.path.join(folder, 'built-report'), {}, False), 600), options, 'abc')
        build.unpack()
        why = build.why_not_packed()
        check(expected in why and bool(expected) == bool(why), f'{expected!r}: {why!r}')
        check([os.path.basename(t) for t in build.beside(os.path.join(build.packed, 'built/orrery'))[1]] == ['test_cuda_kernels'], why)
    for name in ('LIBRARY_PATH', 'LD_LIBRARY_PATH', 'PATH', 'CPATH', 'PKG_CONFIG_LIBDIR'):
        check(build.check.env[name].startswith(build.packed), f'{name}: {build.check.env[name]}')


# ---- all of it ----

def check_good():
    code, text, told = run({})
    status = {name: part['status'] for name, part in told['by'].items()}
    expected = dict.fromkeys(('build', 'kernels', 'towers', 'race-bf16', 'race-gpt', 'launches', 'simulated', 'overhead', 'race-fp32',
                              'race-gpt-fp32', 'schedules', 'memory', 'sharding'), 'PASS')
    check({k: v for k, v in status.items() if k != 'sanitizer'} == expected, text)
    check(code == 0 and told['FAIL'] == 0, text)
    check(all(part['compared'] + len(part['targets']) > 0 for part in told['parts'] if part['status'] == 'PASS'), 'nothing compared')
    check(all(part['limit'] <= 240 for part in told['parts']), 'a part of more than 4 minutes')
    target = {t['name']: t for t in told['by']['race-bf16']['targets']}
    ratio = target['bf16, batch 8192: PyTorch eager / Orrery']
    check(ratio['wanted'] == 'at least 1.2' and abs(ratio['got'] - 1.5) < 1e-9 and ratio['reached'] is True, ratio)
    share = target["bf16, batch 8192: share of the device's peak"]
    check(abs(share['got'] - 3e8 * 8192 / 0.001 / 989e12) < 1e-9, share)
    check(told['by']['launches']['targets'][0]['got'] == 7, told['by']['launches']['targets'])
    with open(os.path.join(folder, 'out/report.md'), encoding='utf-8') as file:
        page = file.read()
    check('| race-bf16 | bf16, batch 8192: PyTorch eager / Orrery | at least 1.2 | 1.5 | yes |' in page, page)


def check_faults():
    """Each is found by the part that looks for it, and by no other."""
    races = ['race-bf16', 'race-gpt', 'race-fp32', 'race-gpt-fp32']
    curves = ['towers', 'schedules', 'sharding']
    for what, told, failing in (
            ('losses 5 % off', {'off': 0.05}, curves[:2] + ['overhead']),
            ('one step less', {'steps': 1}, curves[:2]),
            ('a test that fails', {'test_code': 1, 'test_text': '50%: Checks: 2, Failures: 1, Errors: 0'}, ['kernels']),
            ('slower than PyTorch', {'torch': 0.0009}, races),
            ('a fifth of the peak', {'fast': 0.0125, 'torch': 0.02}, ['race-bf16']),
            ('slow jobs', {'fast': 0.04, 'torch': 0.06, 'name': 'NVIDIA A10'}, ['overhead']),
            ('16 launches a block', {'kernels_a_block': 16}, ['launches']),
            ('a simulator 10 % off', {'simulated': 0.011}, ['simulated']),
            ('nothing moved', {'moved_bytes': 0}, ['memory']),
            ('more memory than there may be', {'used': 9000}, ['memory']),
            ('other losses from two streams', {'streams': 1e-6}, ['overhead'])):
        # beside two that have nothing to do with it
        shutil.rmtree(os.path.join(folder, 'out'), ignore_errors=True)
        _, text, found = run(told, '--part', ','.join({*failing, 'kernels', 'sharding'}))
        failed = [part['name'] for part in found['parts'] if part['status'] == 'FAIL']
        check(sorted(failed) == sorted(failing), f'{what}: {failed}, not {failing}\n{text}')
    for what, told in (('crashes', {'exit': 134}), ('never a device', {'no_device': 'the driver is too old'})):
        code, text, found = run(told)
        passed = [part['name'] for part in found['parts'] if part['status'] == 'PASS']
        check([name for name in passed if name not in ('build', 'kernels')] == [], f'{what}: {passed}\n{text}')
        check((code == 1) == (what == 'crashes'), f'{what}: exit code {code}')
    check('driver is too old' in found['by']['towers']['why'], found['by']['towers'])


def check_absent():
    """What a machine lacks is skipped, and said."""
    _, text, found = run({'torch': 0, 'name': 'Some Card', 'test_code': 77, 'test_text': 'SKIP: no CUDA device'},
                         '--part', 'kernels,race-bf16')
    for name, *whys in (('kernels', 'no CUDA device'), ('race-bf16', 'No module named', 'not known')):
        part = found['by'][name]
        check(part['status'] == 'SKIP' and all(why in part['why'] for why in whys), f'{name}: {part}')


def check_parts():
    """--part and --resume: what runs, and what the report keeps."""
    shutil.rmtree(os.path.join(folder, 'out'))
    code, text, found = run({}, '--part', 'towers')
    check(sorted(found['by']) == ['build', 'towers'], f'--part towers: {sorted(found["by"])}')
    _, text, found = run({'off': 0.05}, '--part', 'overhead,towers')
    check([found['by'][n]['status'] for n in ('towers', 'overhead')] == ['FAIL', 'FAIL'], text)
    code, text, found = run({}, '--resume')
    check(found['by']['towers']['status'] == 'FAIL', 'a part that failed is done')
    check(code == 1, 'a part that failed before is forgotten')
    check(not any('zb-h1' in line for line in calls()), 'a part that was done ran again')
    check(found['by']['memory']['status'] == 'PASS', text)
    before = found['parts']
    _, text, found = run({}, '--resume')
    check([p for p in found['parts'] if p['name'] not in ('build', 'sanitizer')]
          == [p for p in before if p['name'] not in ('build', 'sanitizer')], 'nothing was left to do')
    _, text, found = run({}, '--part', 'towers')
    check(found['by']['towers']['status'] == 'PASS' and 'memory' in found['by'], 'a part again')
    # figures of another device, or of another source, are none of this one
    _, text, found = run({'name': 'NVIDIA H200'}, '--part', 'kernels', '--resume')
    check(sorted(found['by']) == ['build', 'kernels'], sorted(found['by']))
    path = os.path.join(folder, 'out/report.json')
    with open(path, encoding='utf-8') as file:
        told = json.load(file)
    for damage in (json.dumps({**told, 'source': 'another'}), '{"parts": 5', '[]'):
        with open(path, 'w', encoding='utf-8') as file:
            file.write(damage)
        _, text, found = run({'name': 'NVIDIA H200'}, '--part', 'overhead')
        check(sorted(found['by']) == ['build', 'overhead'], f'{damage[:20]}: {sorted(found["by"])}')
    code = subprocess.run([sys.executable, os.path.join(tree, 'tools/gpu/gpu-check'), '--part', 'nothing', '--out',
                           os.path.join(folder, 'out')], capture_output=True, text=True, check=False)
    check(code.returncode == 2 and 'no part nothing' in code.stderr, code.stderr)


def check_time():
    """A limit for all: no part that does not fit begins, and --resume has it run."""
    shutil.rmtree(os.path.join(folder, 'out'))
    _, text, found = run({}, '--seconds', '8')
    check(found['by']['race-bf16']['status'] == 'SKIP' and 'were left' in found['by']['race-bf16']['why'], text)
    _, text, found = run({}, '--resume')
    check(found['by']['race-bf16']['status'] == 'PASS', text)
    # without a device, what is counted on the emulated one
    write('bin/count_launches', '#!/bin/sh\necho "16 launches of $1"\n')
    _, text, found = run({'no_device': 'none is there'}, '--part', 'launches')
    part = found['by']['launches']
    check(part['status'] == 'SKIP' and part['why'] == 'none is there', part)
    check(part['figures'] == {'on the emulated device': ['16 launches of graphs/large_towers.dot:8:8192']}, part)
    # ended from outside, in the middle: nothing of it stays, and the report says what there was
    process = start({'hang': 'profile'}, '--part', 'simulated')
    process.send_signal(signal.SIGTERM) if wait_for(lambda: 'simulated' in process.stdout.readline()) else None
    process.communicate()
    check(process.returncode == 128 + signal.SIGTERM, process.returncode)
    check(report()['by']['race-bf16']['status'] == 'PASS', 'the report of what was there')


def wait_for(said):
    for _ in range(20):
        if said():
            time.sleep(0.5)
            return True
    return False


def check_page():
    """--help names every part."""
    text = subprocess.run([sys.executable, os.path.join(tree, 'tools/gpu/gpu-check'), '--help'], capture_output=True, text=True,
                          check=True).stdout
    with open(os.path.join(tree, 'tools/gpu/gpu-check'), encoding='utf-8') as file:
        names = re.findall(r'^    \("([a-z0-9-]+)", ', file.read(), re.MULTILINE)
    check(len(names) > 10 and all(re.search(rf'^  {name}  +\S', text, re.MULTILINE) for name in names), f'{names}: {text}')


with tempfile.TemporaryDirectory() as folder:
    set_up()
    for step in (check_status, check_limits, check_build, check_page, check_good, check_faults, check_absent, check_parts, check_time):
        step()
finish()
