#!/usr/bin/env python3
"""The pages of --html: well-formed, of one file, with the data of --json; and, in a browser that shows nothing, that they
answer to the pointer. Usage: test_html.py file|browser ORRERY SOURCE yes|no (can it train?)"""
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

from checks import check, finish

mode, orrery, source, trains = sys.argv[1:]
orrery, source = os.path.abspath(orrery), os.path.abspath(source)
VOID = {'meta', 'input', 'br', 'link', 'img', 'hr'}
NETWORK = re.compile(r'https?:|\burl\(|@import|\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|\bimport\(|'
                     r'<(?:link|img|iframe|object|embed|audio|video|form|base)\b|\b(?:src|href|action|srcset)=', re.IGNORECASE)


class Page(html.parser.HTMLParser):
    """Every element that is opened is closed, in order; scripts by their type."""

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.scripts, self.policy = [], [], [], ''
        self.feed(text)
        self.close()
        self.faults += [f'<{tag}> stays open' for tag in self.open]

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag == 'meta' and values.get('http-equiv') == 'Content-Security-Policy':
            self.policy = values['content']
        if tag == 'script':
            self.scripts.append([values.get('type', ''), ''])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f'</{tag}> closes another element')

    def handle_data(self, data):
        if self.open and self.open[-1] == 'script':
            self.scripts[-1][1] += data


def write(name, *words):
    """The page that a command writes, and the object that it prints."""
    path = os.path.join(folder, name + '.html')
    done = subprocess.run([orrery, *words, '--html', path, '--json'], cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    check(done.returncode == 0, f'orrery {" ".join(words)}: {done.stderr}')
    with open(path, encoding='utf-8') as file:
        return path, file.read(), json.loads(done.stdout)


def check_timeline(name, timeline):
    """Causes add up to idle time, the path to the makespan, and memory ends as it began."""
    for w, jobs in enumerate(timeline['jobs']):
        busy = sum(job[4] - job[3] for job in jobs)
        causes = sum(timeline['causes'][w].values())
        gaps = sum(end - start for at, _, start, end in timeline['idle'] if at == w)
        check(busy + causes == timeline['makespan'] and gaps == causes, f'{name}: worker {w}: {busy} + {causes}, gaps {gaps}')
        check(all(a[4] <= b[3] and b[5] == a[4] for a, b in zip(jobs, jobs[1:])), f'{name}: worker {w}: jobs overlap')
        check(not timeline['stash'][w] or timeline['stash'][w][-1][1:] == [0, 0], f'{name}: worker {w} ends with a stash')
    check(all(0 <= a < b < len(timeline['stages']) for a, b, _ in timeline['edges']), f'{name}: edges {timeline["edges"]}')
    path = timeline['path']
    check(path and path[-1][2] == timeline['makespan'], f'{name}: the path does not reach the end')
    check(all(a[2] <= b[1] for a, b in zip(path, path[1:])), f'{name}: the path goes back')
    if name != 'measured':
        check(sum(part[2] - part[1] for part in path) == timeline['makespan'], f'{name}: the path has holes')


def check_file(name, text, told, n_timelines):
    page = Page(text)
    check(not page.faults, f'{name}: {page.faults[:3]}')
    kinds, computes = [kind for kind, _ in page.scripts], 'id="study"' in text
    engine = ['application/octet-stream', 'application/octet-stream', 'application/json', ''] if computes else []
    check(kinds == ['application/json', '', *engine], f'{name}: scripts {kinds}')
    body = page.scripts[0][1]
    found = NETWORK.search(text.replace(body, '').replace('<form id="panel">', ''))
    check(not found, f'{name}: asks for something elsewhere: {found and found[0]}')
    check("default-src 'none'" in page.policy, f'{name}: its policy lets it ask for something elsewhere')
    data = json.loads(body)
    check(data['report'] == told, f'{name}: its data are not what --json says')
    check(len(data['timelines']) == n_timelines, f'{name}: {len(data["timelines"])} timelines')
    for timeline in data['timelines']:
        check_timeline(timeline['name'], timeline)
    return data


def check_files():
    """Every command, and names that would end a script."""
    _, text, told = write('simulate', 'simulate', 'towers:3,3/2', '-m', '16', '--costs', '1,2')
    data = check_file('simulate', text, told, 1)
    check(sum(map(len, data['timelines'][0]['jobs'])) == 8 * 16 * 2, 'simulate: not every job is there')
    check(data['timelines'][0]['makespan'] == 60e9, 'simulate: another makespan')
    _, again, _ = write('simulate', 'simulate', 'towers:3,3/2', '-m', '16', '--costs', '1,2')
    check(text == again, 'simulate: the same again is another page')
    for schedule in 'zb-h1', 'fsdp', 'pipedream', 'v-half':
        _, text, told = write(schedule, 'simulate', 'chain:8', '-w', '4', '-m', '8', '--schedule', schedule, '--latency', '0.5')
        check_file(schedule, text, told, 1)
    study = os.path.join(source, 'graphs/studies/vision_language.dot')
    _, text, told = write('links', 'simulate', study, '-w', '8', '-m', '16', '--stages', '8', '--bandwidth', '5GB/s')
    data = check_file('links', text, told, 1)
    check(any(cause['transfer'] for cause in data['timelines'][0]['causes']), 'links: nobody waits for a transfer')
    _, text, told = write('plan', 'plan', study, '-w', '4')
    check_file('plan', text, told, 1)
    _, text, told = write('compare', 'compare', 'chain:8', '-w', '4', '-m', '8,16', '--jitter', 'lognormal:0.2', '--samples', '5')
    check_file('compare', text, told, 0)
    with open(os.path.join(folder, 'names.dot'), 'w', encoding='utf-8') as file:
        file.write('digraph { a [label="x", forward="1ms", backward="1ms"]\n'
                   '"</script><script>alert(1)</script><!-- & \\u2028" [forward="1ms", backward="2ms"]\n'
                   'a -> "</script><script>alert(1)</script><!-- & \\u2028" }\n')
    _, text, told = write('names', 'simulate', 'names.dot', '-m', '2')
    data = check_file('names', text, told, 1)
    check('</script><script>alert(1)' in data['report']['stages'][1]['operators'][0], 'names: an operator lost its name')
    if trains == 'yes':
        _, text, told = write('train', 'train', os.path.join(source, 'graphs/digits.dot'), '--steps', '12', '--evaluate-every', '4')
        data = check_file('train', text, told, 2)
        check([x['step'] for x in data['losses']] == list(range(1, 13)), 'train: not every step has its loss')
        check([x['step'] for x in data['losses'] if 'test_loss' in x] == [4, 8, 12], 'train: other test losses')
        check([x['test_loss'] for x in data['losses'] if 'test_loss' in x] == [x['loss'] for x in told['evaluations']],
              'train: test losses are not those of --json')
        _, text, told = write('short', 'train', os.path.join(source, 'graphs/digits.dot'), '--steps', '0')
        check_file('short', text, told, 0)


# ---- in a browser ----

# What a person does, by script; what came of it goes into the page, where --dump-dom shows it.
HARNESS = '''<script>
const results = {};
addEventListener('error', event => { results.error = event.message; });
try {
	const point = (canvas, type, x, y) => {
		const box = canvas.getBoundingClientRect();
		canvas.dispatchEvent(new PointerEvent(type, {clientX: box.left + x, clientY: box.top + y, bubbles: true}));
	};
	const click = (table, name) => {
		const th = [...table.querySelectorAll('th')].find(x => x.textContent === name);
		th.querySelector('button').click();
		const k = [...th.parentNode.children].indexOf(th);
		return [...table.querySelectorAll('tbody tr')].map(tr => tr.children[k].textContent);
	};
	results.title = document.title;
	results.sections = [...document.querySelectorAll('h2')].map(x => x.textContent);
	results.wide = document.documentElement.scrollWidth - innerWidth;
	results.background = getComputedStyle(document.body).backgroundColor;
	const t = timelines[0], canvas = document.querySelector('canvas');
	if (t) {
		const width = canvas.clientWidth - gutter_of(t) - 8, row = row_height(t.workers.length);
		const over = (w, ns) => {
			const x = gutter_of(t) + (ns - view.from) / (view.to - view.from) * width;
			point(canvas, 'pointermove', x, (w + 0.5) * row);
			return tip.hidden ? null : tip.textContent;
		};
		results.jobs = t.jobs.map((jobs, w) => jobs.slice(0, 20).map(job => [job, over(w, (job[3] + job[4]) / 2)]));
		results.idle = t.idle.filter(gap => gap[0] === 1).map(gap => [gap, over(1, (gap[2] + gap[3]) / 2)]);
		const colours = () => new Set(new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, row).data.buffer)).size;
		results.colours = colours();
		document.querySelector('.tools button').click();
		results.zoomed = [view.from, view.to];
		canvas.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}));
		results.moved = [view.from, view.to];
		results.after = over(0, (view.from + view.to) / 2);
		canvas.dispatchEvent(new KeyboardEvent('keydown', {key: '0'}));
		results.whole = [view.from, view.to];
		results.graph = nodes_of_graph.map(x => x.textContent);
		over(1, (t.jobs[1][0][3] + t.jobs[1][0][4]) / 2);
		results.linked = [t.jobs[1][0][0], nodes_of_graph.filter(x => x.classList.contains('on')).map(x => x.textContent)];
		results.played = [0, 1, 2].map(() => {
			clock.slider.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}));
			return [marks.clock, clock.slider.getAttribute('aria-valuetext')];
		});
		point(canvas, 'pointerleave', 0, 0);
		results.left = tip.hidden;
		const memory = document.querySelectorAll('canvas')[timelines.length];
		point(memory, 'pointermove', gutter_of(t) + width / 2, 8);
		results.memory = tip.textContent;
	} else {
		const table = document.querySelector('table');
		results.names = click(table, 'schedule');
		results.front = click(table, 'on front');
		results.up = click(table, 'makespan');
		results.down = click(table, 'makespan');
		results.headings = [...table.querySelectorAll('th')].map(x => x.textContent);
		results.sorted = table.querySelector('[aria-sort]').getAttribute('aria-sort');
		const [across, up] = document.querySelectorAll('select'), width = canvas.clientWidth - 76 - 8;
		results.chosen = [across.value, up.value];
		up.value = 'lower_bound';
		up.dispatchEvent(new Event('change'));
		results.address = location.hash;
		const bounds = report.schedules.map(x => x.lower_bound), first = report.schedules[0];
		const share = (x, all) => 0.04 + 0.92 * (x - Math.min(...all)) / (Math.max(...all) - Math.min(...all));
		point(canvas, 'pointermove', 76 + width * share(first.makespan, report.schedules.map(x => x.makespan)),
			10 + 280 * (1 - share(first.lower_bound, bounds)));
		results.pointed = tip.textContent;
	}
	if (data.losses.length) {
		const loss = [...document.querySelectorAll('canvas')].pop();
		point(loss, 'pointermove', loss.clientWidth - 9, 20);
		results.loss = tip.textContent;
	}
} catch (error) { results.error = String(error.stack); }
const pre = document.createElement('pre');
pre.id = 'results';
pre.textContent = encodeURIComponent(JSON.stringify(results));
document.body.append(pre);
</script>
'''


def look(browser, path, width, dark, address=''):
    """What the harness found."""
    with open(path, encoding='utf-8') as file:
        text = file.read()
    harnessed = path.replace('.html', '.test.html')
    with open(harnessed, 'w', encoding='utf-8') as file:
        file.write(text.replace('</body>', HARNESS + '</body>'))
    done = subprocess.run([browser, '--headless', '--no-sandbox', '--disable-gpu', '--user-data-dir=' + folder + '/profile',
                           *(['--blink-settings=preferredColorScheme=0'] if dark else []), f'--window-size={width},900',
                           '--virtual-time-budget=5000', '--dump-dom', 'file://' + harnessed + address],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    found = re.search(r'<pre id="results">([^<]*)</pre>', done.stdout.decode())
    if not found:
        check(False, f'{path}: the browser says nothing: {done.stderr.decode()[-500:]}')
        return {}
    results = json.loads(urllib.parse.unquote(found[1]))
    check('error' not in results, f'{path} at {width}: {results.get("error")}')
    check(results['wide'] <= 0, f'{path}: {results["wide"]} pixels wider than {width}')
    return results


def check_simulated(results):
    """Hover of every job says which it is, what it has, when it was and what it waited for."""
    n = 0
    for w, jobs in enumerate(results['jobs']):
        for (s, b, d, start, end, *rest), text in jobs:
            wanted = [f'{s}{d}{b}', f'stage {s}', f'microbatch {b}', f'w{w}', f'from {start / 1e9:g}', f'to {end / 1e9:g} unit',
                      'operators: tower' if s < 6 else 'operators: trunk']
            if rest[0] < start:
                wanted.append(f'waited {(start - rest[0]) / 1e9:g} unit')
            n += 1
            check(text and all(word in text for word in wanted), f'hover of {s}{d}{b}: {text}')
    check(n > 100, f'only {n} jobs')
    for gap, text in results['idle']:
        check(text and text.startswith('idle') and {'warm_up': 'warm-up', 'drain': 'drain'}[gap[1]] in text, f'hover of {gap}: {text}')
    check(results['jobs'][1][0][1].count('1F0') and 'for 0F0 on w0, which ended at 1 unit' in results['jobs'][1][0][1],
          f'1F0: {results["jobs"][1][0][1]}')
    check(results['colours'] > 8, f'the first row has {results["colours"]} colours')
    check(results['zoomed'] == [15e9, 45e9] and results['moved'] == [21e9, 51e9] and results['whole'] == [0, 60e9],
          f'zoom: {results["zoomed"]}, {results["moved"]}, {results["whole"]}')
    check('stage 0' in results['after'], f'hover after moving: {results["after"]}')
    check(results['graph'] == [str(s) for s in range(8)], f'stages in the graph: {results["graph"]}')
    check(results['linked'] == [results['linked'][0], [str(results['linked'][0])]], f'a job and its stage: {results["linked"]}')
    check([at for at, _ in results['played']] == [1e9, 2e9, 3e9] and '1F0 on w1' in results['played'][0][1], f'playback: {results["played"]}')
    check(results['left'], 'the hover stays when the pointer leaves')
    check('5 stashes' in results['memory'], f'hover of memory: {results["memory"]}')


def check_compared(results, told):
    units = [float(cell.split()[0]) for cell in results['up']]
    check(units == sorted(round(row['makespan'], 3) for row in told['schedules']), f'makespans upwards: {units}')
    check(results['down'] == results['up'][::-1] or [float(x.split()[0]) for x in results['down']] == units[::-1], 'and downwards')
    check(sorted(results['names']) == sorted(row['schedule'] for row in told['schedules']), f'names: {results["names"]}')
    check(results['front'].count('*') == sum(row['on_front'] for row in told['schedules']) > 0, f'on the front: {results["front"]}')
    check({'per microbatch', 'peak stash', 'strict median', 'greedy p95', 'not tested'} <= set(results['headings']),
          f'headings: {results["headings"]}')
    check(results['sorted'] == 'descending', 'a second click does not turn the order')
    check(results['chosen'] == ['makespan', 'peak_stash'], f'columns of the drawing: {results["chosen"]}')
    check('lower bound' in results['pointed'] and told['schedules'][0]['schedule'] in results['pointed'], f'a point: {results["pointed"]}')


def check_browser(browser):
    path, _, _ = write('simulate', 'simulate', 'towers:3,3/2', '-m', '16', '--costs', '1,2')
    backgrounds = set()
    for width, dark in (1400, False), (500, True):
        results = look(browser, path, width, dark)
        backgrounds.add(results.get('background'))
        if results:
            check_simulated(results)
    check(len(backgrounds) == 2, f'light and dark: {backgrounds}')
    path, _, told = write('compare', 'compare', 'chain:8', '-w', '4', '-m', '8', '--costs', '1,1,1', '--jitter', 'uniform:0.1',
                          '--samples', '5')
    for width in 1400, 500:
        check_compared(look(browser, path, width, False), told)
    results = look(browser, path, 1400, False, '#bubble,peak_stash')
    check([results['chosen'], results['address']] == [['bubble', 'peak_stash'], '#bubble,lower_bound'],
          f'an address that names columns: {results["chosen"]}, {results["address"]}')
    path, _, _ = write('plan', 'plan', os.path.join(source, 'graphs/studies/vision_language.dot'), '-w', '4')
    results = look(browser, path, 1400, False)
    check('Stages' in results['sections'] and 'operators: vision' in results['jobs'][0][0][1], f'plan: {results["jobs"][0][0]}')
    if trains == 'yes':
        path, _, _ = write('train', 'train', os.path.join(source, 'graphs/digits.dot'), '--steps', '12', '--evaluate-every', '4')
        results = look(browser, path, 500, True)
        check('predicted beside measured' in results['sections'] and 'Loss' in results['sections'], f'train: {results["sections"]}')
        check('step 12' in results['loss'] and 'test loss' in results['loss'], f'hover of the loss: {results["loss"]}')


with tempfile.TemporaryDirectory() as folder:
    if mode == 'file':
        check_files()
    else:
        found = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
        if not found:
            print('SKIP: no Chromium: pages are not looked at')
            sys.exit(77)
        check_browser(found)
finish()
