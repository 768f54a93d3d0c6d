"""Losses of a model that is split beside the unsplit one's: SGD, step by step, and the same bits under other schedules and on
ranks; and what a run leaves when it goes on under another split."""
import os
import tempfile

from common import GRAPHS, rows_of, run

# Learning rates: at 0.05 the unsplit clip is as far from itself, with another number of microbatches, as from a split one.
MODELS = {'gpt': 0.05, 'clip': 0.01, 'mmt': 0.05, 'moe': 0.05}
SPLITS = ('2', '4', '2:copied')
MPIRUN = ['mpirun', '--allow-run-as-root', '--oversubscribe']


def train(orrery, model, *arguments, ranks=0):
    """The losses of the steps."""
    command = [orrery, 'train', GRAPHS / f'{model}.dot', '--batch', '48', '--optimizer', 'sgd', '--lr',
               str(MODELS[model]), '--loss', 'loss.csv', *map(str, arguments)]
    if ranks:
        command = [*MPIRUN, '-n', str(ranks), *command]
    run(*command, env=dict(os.environ, STARPU_SILENT='1'))
    return [row['loss'] for row in rows_of('.', 'loss.csv')]


def schedules(model):
    """Of one owner a stage, on groups of two workers; CLIP's loss gathers the minibatch."""
    return (('gpipe', 10), ('auto', 10)) if model == 'clip' else (('gpipe', 8), ('zb-h1', 8), ('fsdp', 4))


def arguments(parser):
    parser.add_argument('steps', type=int, nargs='?', default=50)


def main(options):
    orrery, steps, faults = options.orrery, options.steps, 0
    print(f'Largest difference of a loss from the unsplit model\'s over {steps} steps; runs with the same bits at the same split:\n')
    print('| model | split | first and last loss | difference | relative | other schedules, and ranks | resumed at 1 |')
    print('|---|---|---|---|---|---|---|')
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for model in MODELS:
            first = 'gpipe' if model == 'clip' else '1f1b'
            alone = train(orrery, model, '-m', 4, '--steps', steps, '--schedule', first)
            for split in SPLITS:
                t = int(split[0])
                losses = train(orrery, model, '-m', 4, '--steps', steps, '--split', split, '--schedule', first)
                apart = [abs(float(a) - float(b)) for a, b in zip(losses, alone)]
                relative = max(d / abs(float(b)) for d, b in zip(apart, alone))
                same = [train(orrery, model, '-m', 4, '--steps', 5, '--split', split, '--schedule', name, '-w',
                              workers * t // 2) == losses[:5] for name, workers in schedules(model)]
                same += [train(orrery, model, '-m', 4, '--steps', 5, '--split', split, '--schedule', first, '-w', 4,
                               ranks=n) == losses[:5] for n in (2, 4)]
                half = steps // 2
                train(orrery, model, '-m', 4, '--steps', half, '--split', split, '--schedule', first,
                      '--checkpoint', f'at-{model}-{split}')
                resumed = train(orrery, model, '-m', 4, '--steps', steps, '--schedule', first, '--checkpoint',
                                f'at-{model}-{split}', '--resume')
                gone_on = max(abs(float(a) - float(b)) for a, b in zip(resumed, alone[half:]))
                good = relative <= 1e-6 and all(same) and gone_on <= 1e-6 * abs(float(alone[0]))
                faults += not good
                print(f'| {model} | {split} | {float(losses[0]):.4f}, {float(losses[-1]):.4f} | {max(apart):.1e} | '
                      f'{relative:.1e} | {sum(same)} of {len(same)} | {gone_on:.1e} |{"" if good else " **not good**"}', flush=True)
    print('all good' if not faults else f'{faults} not good')
    return faults > 0
