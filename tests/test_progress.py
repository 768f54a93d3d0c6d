#!/usr/bin/env python3
"""What takes long says so, and what compare has is printed on Ctrl-C. A plug-in that never answers holds the command up, so
each case waits for a line on standard error, however long that takes. Usage: test_progress.py ORRERY SOURCE CC..."""
import os
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

# a script's background jobs ignore it, and so would what they start
signal.signal(signal.SIGINT, signal.default_int_handler)
orrery, source, *cc = sys.argv[1:]
orrery, source = os.path.realpath(orrery), os.path.realpath(source)
# check() of 8 microbatches on a chain of 8 stages, and of more than 8, goes on for ever
SLOW = '''
#include <unistd.h>
#include <orrery/schedule.h>
static int check(const struct orr_pipeline *p, const void *x, struct orr_error *err)
{ (void)x; (void)err; while (p->n_microbatches > 8 || (p->n_microbatches == 8 && p->n_stages == 8)) pause(); return 0; }
static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *x)
{ (void)b; (void)d; (void)x; return s % p->n_workers; }
static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *x)
{ int64_t S = p->n_stages; (void)x; return b * 2 * S + (d ? 2 * S - 1 - s : s); }
static const struct orr_schedule slow = {.name = "slow", .check = check, .compute = compute, .priority = priority};
ORR_PLUGIN(slow);
'''
PLAN_SO_FAR = 'orrery: interrupted: the best of the plans that were tried by then\n'
INTERRUPTED = 'orrery: interrupted: the rows so far, and no files\n'
failed = checks = 0


def check(holds, what):
    global failed, checks
    checks += 1
    if not holds:
        failed += 1
        print('FAILED: ' + what)


def plain(*words):
    return subprocess.run([orrery, *words], capture_output=True, text=True, check=True).stdout


def interrupted(line, *words):
    """Standard output, the rest of standard error and how it ended, interrupted when it has said this line."""
    with subprocess.Popen([orrery, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        # on a busy machine another line may come first
        while re.fullmatch(r'\w+: \d+ s, .*\n', said := process.stderr.readline()) and not re.fullmatch(line, said):
            pass
        check(re.fullmatch(line, said), f'orrery {" ".join(words)}: said {said!r}, not {line!r}')
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        return out, re.sub(line, '', err), process.returncode


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    with open('slow.c', 'w', encoding='utf-8') as file:
        file.write(SLOW)
    subprocess.run([*cc, '-shared', '-fPIC', '-I' + os.path.join(source, 'src'), '-o', 'slow.so', 'slow.c'], check=True)
    slow = ('--schedule', './slow.so', '--schedule', 'all', '--timeout', '86400')
    waiting = r'compare: \d+ s, trying slow\n'

    # 1,200 operators on 4,096 workers of three levels
    with open('layers.dot', 'w', encoding='utf-8') as file:
        file.write('digraph g { node [forward="1ms", backward="2ms", activation="10MB", parameters="400MB", stash="50MB"];\n'
                   + ''.join(f'a{i} -> {{a{i + 1} b{i + 1}}}; b{i} -> {{a{i + 1} b{i + 1}}};\n' for i in range(600)) + '}\n')
    noise = ('-m', '64', '--jitter', 'lognormal:0.2', '--samples', '10000000')
    cutting = r'plan: \d+ s, cutting into stages and placing them\n'
    # most of them wait, for a line that comes after seconds
    with ThreadPoolExecutor(4) as together:
        no_row = together.submit(interrupted, waiting, 'compare', 'chain:4', '-m', '16', *slow)
        one_of_two = {more: together.submit(interrupted, waiting, 'compare', 'chain:4', '-m', '8,16', '--csv', 'rows.csv', *more, *slow)
                      for more in ((), ('--json',))}
        first_cut = together.submit(interrupted, waiting, 'compare', 'chain:8', '-w', '4', '-m', '8', *slow)
        simulate = together.submit(interrupted, r'simulate: \d+ s, placing jobs under slow\n', 'simulate', 'chain:4', '-m', '16', *slow[:2], *slow[4:])
        noisy = together.submit(interrupted, r'simulate: \d+ s, drawing noise\n', 'simulate', 'chain:8', *noise)
        plan = together.submit(interrupted, cutting, 'plan', 'layers.dot', '-w', '16x16x16', '--link', '300GB/s,25GB/s,12.5GB/s',
                               '-m', '4096')
        several = together.submit(interrupted, cutting, 'plan', 'chain:48', '-w', '48', '-m', '20000', '--memory', '1GB', '--stash', '1MB')

    # as if nobody had caught the signal
    for what, case in ('no rows', no_row), ('simulate', simulate), ('noise', noisy), ('plan', plan):
        check(case.result() == ('', '', -signal.SIGINT), f'{what}: {case.result()}')
    # all of one number of microbatches, nothing of the next
    for more, case in one_of_two.items():
        out, err, code = case.result()
        check(out == plain('compare', 'chain:4', '-m', '8', *more, *slow), f'other rows than -m 8 has: {out}')
        check((err, code) == (INTERRUPTED, -signal.SIGINT), f'{code}: {err!r}')
        check(not os.path.exists('rows.csv'), 'a file of rows')
    # all schedules on the first of two cuts: they are the best so far
    out, err, code = first_cut.result()
    rows = re.findall(r'^[* ] ([\w-]+) +\d', out, re.MULTILINE)
    alone = re.findall(r'^[* ] ([\w-]+) +\d', plain('compare', 'chain:8', '-w', '4', '-m', '8', '--stages', '4', *slow), re.MULTILINE)
    check(sorted(rows) == sorted(alone) and 'slow' in rows and len(rows) > 15, f'{rows}, and alone {alone}')
    check(out.startswith('chain:8: 4 or 8 stages on 4 workers, 8 microbatches\n'), out)
    check((err, code) == (INTERRUPTED, -signal.SIGINT), f'{code}: {err!r}')
    # a row as it came, sorted: what a whole table has of it
    check(rows == alone, f'in the order {rows}, and alone {alone}')
    # a plan, the first of several; on a machine that is slow or busy there is none yet
    out, err, code = several.result()
    none, some = (out, err) == ('', ''), err == PLAN_SO_FAR and 'Sought: the best throughput' in out
    check(code == -signal.SIGINT and (none or some), f'plan so far: {code}, {err!r}, {out}')
print(f'{100 * (checks - failed) // checks}%: Checks: {checks}, Failures: {failed}, Errors: 0')
sys.exit(failed > 0)
