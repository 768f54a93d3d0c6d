/* ---- sections ---- */

function timeline_section() {
	const zooms = [['+', () => zoom(0.5)], ['\u2212', () => zoom(2)], ['whole', () => look(0, longest)]].map(([text, act]) => {
		const button = el('button', {type: 'button', title: 'zoom'}, text);
		button.addEventListener('click', act);
		return button;
	});
	const box = el('input', {type: 'checkbox', ...(path_shown ? {checked: ''} : {})});
	box.addEventListener('change', () => { path_shown = box.checked; redraw(); });
	const idle = ['warm_up', 'drain', 'transfer', 'order'].map(x => key(CAUSES[x], 'var(--' + x + ')'));
	const node = section(timelines.length > 1 ? 'Timelines, ' + timelines.map(t => t.name).join(' and ') : 'Timeline',
		el('div', {class: 'tools'}, el('span', {}, ...zooms), el('label', {class: 'key'}, box, key('critical path', 'var(--accent)')),
			el('span', {class: 'faint'}, 'idle:'), ...idle),
		el('p', {class: 'faint'}, 'Light: forward; dark: backward; both: weight gradient; a colour a microbatch. ' +
			'Drag to move; Ctrl or Shift and the wheel, or a double click, to zoom; + \u2212 0 \u2190 \u2192 on the keyboard. ' +
			'Space plays; on the slider of time, \u2190 \u2192 go from event to event.'), playback(), graph());
	for (const t of timelines) {
		if (timelines.length > 1) node.append(el('p', {}, el('b', {}, t.name), ': ' + time(t.makespan)));
		node.append(timeline_chart(t));
	}
}
function memory_section() {
	const memory = section('Memory of each worker', el('div', {class: 'tools'}, key('stashes', 'var(--stash)'),
		key('parameters, gradients, optimizer', 'var(--base)'),
		...(timelines.some(t => t.limits.some(x => x)) ? [key('limit', 'var(--accent)')] : [])));
	for (const t of timelines) {
		const [canvas, most] = memory_chart(t);
		memory.append(el('p', {class: 'faint'}, (timelines.length > 1 ? t.name + '; ' : '') + 'a row is ' + most + ' high'), canvas);
	}
}
function sum(list) { return list.reduce((x, y) => x + y, 0); }
function busy_of(t, w) { return t.makespan - sum(Object.values(t.causes[w])); }
function bubbles_section() {
	const names = Object.keys(CAUSES), node = section('Idle time by cause');
	node.append(el('div', {class: 'tools'}, key('busy', 'var(--busy)'), ...names.map(x => key(CAUSES[x], 'var(--' + x + ')'))),
		el('p', {class: 'faint'}, 'Imbalance: what the busiest worker has more to do. Of the rest, warm-up is before the worker\u2019s first ' +
			'backward, drain after its last forward, and the order of jobs in between.'));
	for (const t of timelines) {
		if (timelines.length > 1) node.append(el('p', {}, el('b', {}, t.name)));
		const rows = t.workers.map((name, w) => {
			const bar = el('div', {class: 'bar'}), busy = busy_of(t, w);
			let from = 0;
			bar.style.background = 'linear-gradient(to right' + ['busy', ...names].map(x => {
				const to = from + 100 * (x === 'busy' ? busy : t.causes[w][x]) / Math.max(1, t.makespan), part = ', var(--' + x + ') ' + from + '% ' + to + '%';
				from = to;
				return part;
			}).join('') + ')';
			return [[name, w], [bar, busy], [time(busy), busy], ...names.map(x => [time(t.causes[w][x]), t.causes[w][x]])];
		});
		node.append(table([{name: 'worker', text: true}, {name: 'share', text: true}, {name: 'busy'},
			...names.map(x => ({name: CAUSES[x]}))], rows));
	}
}
const points = share => (100 * share).toFixed(1) + ' points';
function beside_section() {
	const [predicted, measured] = timelines;
	const shares = t => Object.keys(CAUSES).map(x => sum(t.causes.map(c => c[x])) / Math.max(1, t.makespan * t.workers.length));
	const rows = [['makespan', time(predicted.makespan), time(measured.makespan),
		percent(measured.makespan / Math.max(1, predicted.makespan) - 1)],
		...[['busy', t => sum(t.workers.map((_, w) => busy_of(t, w))) / Math.max(1, t.makespan * t.workers.length)],
			...Object.keys(CAUSES).map((x, i) => [CAUSES[x], t => shares(t)[i]])].map(([name, share]) =>
			[name, percent(share(predicted)), percent(share(measured)), points(share(measured) - share(predicted))])];
	section(predicted.name + ' beside ' + measured.name, table([{name: 'of all workers', text: true}, {name: predicted.name}, {name: measured.name},
		{name: 'difference'}], rows));
}
function path_section() {
	const node = section('Critical path');
	for (const t of timelines) {
		const parts = new Map(), all = sum(t.path.map(part => part[2] - part[1]));
		for (const [w, start, end, item, kind] of t.path) {
			const job = item === null ? null : t.jobs[w][item];
			const name = job ? PASSES[job[2]] + ' of stage ' + job[0] : words(kind) + ' to w' + w;
			const part = parts.get(name) || {n: 0, ns: 0, w};
			part.n++;
			part.ns += end - start;
			parts.set(name, part);
		}
		node.append(el('p', {}, (timelines.length > 1 ? t.name + ': ' : '') + t.path.length + ' parts, ' + time(all) + ' of ' +
			time(t.makespan) + (all < t.makespan ? '; in between, nothing is known to be waited for' : '')));
		node.append(table([{name: 'what', text: true}, {name: 'times'}, {name: 'together'}, {name: 'of the makespan'}],
			[...parts].sort((a, b) => b[1].ns - a[1].ns).map(([name, part]) => [name, part.n, [time(part.ns), part.ns],
				[percent(part.ns / Math.max(1, t.makespan)), part.ns]])));
	}
}
function stages_section() {
	const t = timelines[timelines.length - 1], seconds = x => x === null ? ['', null] : [time(x * 1e9), x];
	section('Stages', table([{name: 'stage'}, {name: 'part of', text: true, optional: true}, {name: 'workers', text: true}, {name: 'forward'}, {name: 'backward', optional: true},
		{name: 'weight', optional: true}, {name: 'parameters', optional: true},
		{name: 'operators', text: true, long: true, optional: true}], t.stages.map((stage, s) => [s, stage.part ? part_of(stage) : '', stage.workers.join(', '),
		seconds(stage.forward), seconds(stage.backward), seconds(stage.weight),
		[size(stage.parameter_bytes) + (stage.frozen ? ' frozen' : ''), stage.parameter_bytes], operators_of(t, s)])));
}
function cell(name, value) {
	if (value === null || value === undefined) return ['', null];
	if (Array.isArray(value)) return value.join(', ');
	if (typeof value === 'boolean') return value ? '*' : '';
	if (typeof value !== 'number') return String(value);
	if (name === 'memory' || name.endsWith('_bytes')) return [size(value), value];
	if (name.endsWith('bubble')) return [percent(value), value];
	return Number.isInteger(value) && !/makespan|bound|per_microbatch|busy|idle|first_start|last_end|median|p95|worst/.test(name) ? value : [time(value * 1e9), value];
}
/* A table of objects: every key that any of them has, those that are asked for most in front. */
const FRONT = ['worker', 'schedule', 'on_front', 'makespan', 'per_microbatch', 'bubble', 'span_bubble', 'memory_bytes', 'peak_stash', 'reason'];
function objects_table(objects, left, classes) {
	const names = [...new Set(objects.flatMap(Object.keys))];
	const rank = name => (report.axes || []).includes(name) ? FRONT.indexOf('schedule') + .5 : FRONT.includes(name) ? FRONT.indexOf(name) : FRONT.length + (name === 'not_tested');
	names.sort((a, b) => rank(a) - rank(b));
	return table(names.map(name => ({name: words(name), text: left.includes(name), long: name === 'reason', optional: true})),
		objects.map(x => names.map(name => cell(name, x[name]))), classes);
}
function workers_section() {
	const skipped = ['order', 'n'], rows = report.worker.map((worker, w) => Object.fromEntries([['worker', 'w' + w],
		...Object.entries(worker).filter(([name]) => !skipped.includes(name))]));
	section('Workers', objects_table(rows, ['worker']));
}
/* Any column of these rows against any other; a line joins those of a schedule that differ in the one across alone.
 * The address names both: page.html#microbatches,bubble. */
function columns_section(rows) {
	const own = report.axes || [], distinct = name => [...new Set(rows.map(row => row[name]).filter(x => x !== null && x !== undefined))];
	const names = [...new Set(rows.flatMap(Object.keys))].filter(name => name !== 'cut' && distinct(name).length > 1 &&
		(own.includes(name) || distinct(name).every(x => typeof x === 'number')));
	if (names.length < 2) return;
	const first = names.includes('makespan') ? 'makespan' : names[0], height = 320;
	const usual = [first, ['memory_bytes', 'peak_stash', ...names].find(name => names.includes(name) && name !== first)];
	const asked = location.hash.slice(1).split(','), chosen = asked.length === 2 && asked.every(name => names.includes(name)) ? asked : usual;
	const shown = (name, x) => [].concat(cell(name, x))[0];
	const scale = name => {
		const values = distinct(name), named = values.some(x => typeof x !== 'number'), of = x => named ? values.indexOf(x) : x;
		const numbers = values.map(of), low = Math.min(...numbers), high = Math.max(...numbers), log = !named && low > 0 && high > 5 * low;
		const f = log ? Math.log : x => x, back = log ? Math.exp : x => x, whole = numbers.every(Number.isInteger) ? Math.round : x => x;
		const ticks = values.length < 9 ? values : [0, 1, 2, 3, 4].map(i => whole(back(f(low) + (f(high) - f(low)) * i / 4)));
		return {ticks, share: x => x === null || x === undefined ? NaN : 0.04 + 0.92 * (f(of(x)) - f(low)) / (f(high) - f(low))};
	};
	const place_of = area => {
		const [x, y] = chosen.map(scale);
		return {x, y, across: v => area.left + x.share(v) * area.width, up: v => 10 + (height - 40) * (1 - y.share(v))};
	};
	const label_of = row => [row.schedule, ...[...new Set([...own, 'microbatches', 'memory', 'stages'])]
		.filter(name => names.includes(name) && !chosen.includes(name)).map(name => words(name) + ' ' + shown(name, row[name]))].join(', ');
	const draw = (context, area) => {
		const {x, y, across, up} = place_of(area), lines = new Map();
		context.fillStyle = colour('faint');
		context.strokeStyle = colour('line');
		for (const [ticks, name, align] of [[x.ticks, chosen[0], 'center'], [y.ticks, chosen[1], 'right']])
			for (const tick of ticks) {
				context.textAlign = align;
				context.beginPath();
				if (align === 'center') {
					context.fillText(shown(name, tick), across(tick), height - 12);
					context.moveTo(across(tick), 10);
					context.lineTo(across(tick), height - 30);
				} else {
					context.fillText(shown(name, tick), area.left - 6, up(tick));
					context.moveTo(area.left, up(tick));
					context.lineTo(area.left + area.width, up(tick));
				}
				context.stroke();
			}
		for (const row of rows) lines.set(label_of(row), [...lines.get(label_of(row)) || [], row]);
		[...lines.values()].forEach((line, i) => {
			const at = line.map(row => [across(row[chosen[0]]), up(row[chosen[1]])]).sort((a, b) => a[0] - b[0]);
			context.strokeStyle = context.fillStyle = HUES[i % HUES.length][1];
			context.beginPath();
			at.forEach(point => context.lineTo(...point));
			context.stroke();
			for (const point of at) {
				context.beginPath();
				context.arc(...point, 3.5, 0, 7);
				context.fill();
			}
		});
	};
	const hover = (px, py, area) => {
		const {across, up} = place_of(area), far = row => Math.hypot(across(row[chosen[0]]) - px, up(row[chosen[1]]) - py);
		const near = rows.filter(row => far(row) < 8);
		return near.length ? near.slice(0, 8).flatMap(row => [el('b', {}, label_of(row)),
			el('div', {}, chosen.map(name => words(name) + ' ' + shown(name, row[name])).join(', '))]) : null;
	};
	const canvas = chart({height, gutter: 76, draw, hover, label: 'one column against another'});
	const choices = ['across', 'up'].map((text, i) => {
		const select = el('select', {}, ...names.map(name => el('option', {value: name, ...(name === chosen[i] ? {selected: ''} : {})}, words(name))));
		select.addEventListener('change', () => { chosen[i] = select.value; location.hash = chosen; redraw(); });
		return el('label', {class: 'key'}, text + ' ', select);
	});
	section('One column against another', el('div', {class: 'tools'}, ...choices), canvas);
}
function compare_section() {
	const rows = report.schedules.map(row => {
		const flat = {...row};
		delete flat.noise;
		for (const [order_name, spread] of Object.entries(row.noise || {}))
			for (const figure of ['median', 'p95', 'worst']) flat[order_name + ' ' + figure] = spread ? spread[figure] : null;
		flat.not_tested = flat.not_tested && flat.not_tested.length ? flat.not_tested : null;
		return flat;
	});
	const node = section('Schedules that fit', el('p', {class: 'faint'}, 'A click on a heading sorts. On the front (*): no other is both ' +
		'faster and smaller.' +
		(report.front ? ' auto was tried in up to ' + report.front.most_memories + ' memories of a cut.' : '')));
	node.append(rows.length ? objects_table(rows, ['schedule', 'not_tested'], rows.map(x => x.on_front ? 'front' : '')) : 'None.');
	columns_section(rows);
	if (report.refused.length) section('Schedules that do not fit', objects_table(report.refused, ['schedule', 'reason']));
}
function loss_section() {
	const points = data.losses.filter(x => x.loss !== null), tests = data.losses.filter(x => typeof x.test_loss === 'number');
	const values = [...points.map(x => x.loss), ...tests.map(x => x.test_loss)];
	if (!values.length) return;
	const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
	const log = low > 0 && high / low > 20, f = x => log ? Math.log(x) : x;
	const first = data.losses[0].step, last = data.losses[data.losses.length - 1].step, height = 260;
	const at = (area, step) => area.left + (step - first) / Math.max(1, last - first) * area.width;
	const up = y => 10 + (height - 40) * (1 - (f(y) - f(low)) / Math.max(1e-12, f(high) - f(low)));
	const draw = (context, area) => {
		context.fillStyle = colour('faint');
		context.strokeStyle = colour('line');
		context.textAlign = 'right';
		for (let i = 0; i <= 4; i++) {
			const y = f(low) + (f(high) - f(low)) * i / 4, value = log ? Math.exp(y) : y;
			context.fillText(digits(value), area.left - 6, up(value));
			context.beginPath();
			context.moveTo(area.left, up(value));
			context.lineTo(area.left + area.width, up(value));
			context.stroke();
		}
		context.textAlign = 'center';
		const step = Math.max(1, round_step(Math.max(1, last - first), Math.max(2, area.width / 90)));
		for (let i = Math.ceil(first / step); i * step <= last; i++) context.fillText(i * step, at(area, i * step), height - 12);
		context.lineWidth = 1.5;
		context.strokeStyle = colour('busy');
		context.beginPath();
		points.forEach((point, i) => context[i ? 'lineTo' : 'moveTo'](at(area, point.step), up(point.loss)));
		context.stroke();
		context.strokeStyle = context.fillStyle = colour('accent');
		for (const point of tests) {
			context.beginPath();
			context.arc(at(area, point.step), up(point.test_loss), 3, 0, 7);
			context.fill();
		}
	};
	const hover = (x, y, area) => {
		const step = first + (x - area.left) / area.width * (last - first);
		const near = data.losses.reduce((a, b) => Math.abs(b.step - step) < Math.abs(a.step - step) ? b : a);
		return x < area.left ? null : [el('b', {}, 'step ' + near.step), el('div', {}, 'loss ' + (near.loss === null ? 'not finite' : digits(near.loss))),
			...(typeof near.test_loss === 'number' ? [el('div', {}, 'test loss ' + digits(near.test_loss))] : [])];
	};
	section('Loss', el('div', {class: 'tools'}, key('training', 'var(--busy)'), ...(tests.length ? [key('test', 'var(--accent)')] : []),
		el('span', {class: 'faint'}, 'by step' + (log ? ', logarithmic' : ''))), 
		chart({height, gutter: 56, draw, hover, label: 'loss by step'}));
}
