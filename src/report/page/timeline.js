/* ---- a timeline ---- */

/* The first of a sorted list that ends after `ns`. */
function first_after(list, end, ns) {
	let low = 0, high = list.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (list[middle][end] > ns) high = middle; else low = middle + 1;
	}
	return low;
}
function name_of(job) { return job[2] === 'U' ? job[0] + 'U' : job[0] + job[2] + job[1]; }
function operators_of(t, s) {
	const names = t.stages[s].operators, most = 12;
	return names.length > most ? names.slice(0, most - 1).join(', ') + ' \u2026 ' + names[names.length - 1] + ' (' + names.length + ')'
		: names.join(', ');
}
/* Of a graph that was split. */
function part_of(stage) {
	const {stage: whole, worker, workers, level} = stage.part;
	return 'stage ' + whole + ', worker ' + worker + ' of ' + workers + ', level ' + level;
}
/* What a job waited for to the last. */
function awaited(t, job) {
	const [, , , start, , free, kind, s, b, d, w, made, came] = job;
	if (job.length < 7) return start > free ? 'for nothing that is known' : 'for nothing';
	const from = s === null ? 'the parameters from w' + w : s + d + b + ' on w' + w;
	if (kind === null) return 'for ' + from + ', which ended at ' + time(made);
	if (kind === 'data') return 'for ' + from + ', which ended at ' + time(made) + ', and its data';
	return s === null ? 'for ' + from + ', on their way from ' + time(made) + ' to ' + time(came)
		: 'for the ' + words(kind) + ' of ' + from + ', on its way from ' + time(made) + ' to ' + time(came);
}
function describe_job(t, w, i) {
	const job = t.jobs[w][i], [s, b, d, start, end, free] = job, operators = operators_of(t, s);
	const nodes = [el('b', {}, name_of(job)), ' ' + PASSES[d] + ' of stage ' + s + (d === 'U' ? '' : ', microbatch ' + b) +
		' on ' + t.workers[w]];
	if (t.stages[s].part) nodes.push(el('div', {}, 'part of ' + part_of(t.stages[s])));
	if (operators) nodes.push(el('div', {}, 'operators: ' + operators));
	nodes.push(el('div', {}, 'from ' + time(start) + ' to ' + time(end) + ': ' + time(end - start)));
	nodes.push(el('div', {}, start > free ? 'waited ' + time(start - free) + ', to the last ' + awaited(t, job)
		: start === 0 ? 'it waits for nothing' : 'the worker was busy until it started' + (job.length < 7 ? '' : '; it waits ' + awaited(t, job))));
	if (t.critical.has(w + ':' + i)) nodes.push(el('div', {}, 'on the critical path'));
	return nodes;
}
function describe_gap(t, w, gap, i) {
	const next = t.jobs[w][i];
	return [el('b', {}, 'idle'), ' ' + t.workers[w] + ': ' + (CAUSES[gap[1]] || gap[1]),
		el('div', {}, 'from ' + time(gap[2]) + ' to ' + time(gap[3]) + ': ' + time(gap[3] - gap[2])),
		el('div', {}, next ? name_of(next) + ' waits ' + awaited(t, next) : 'nothing is left to do')];
}
/* #rrggbb, as a pixel of an image */
function pixel(hex, opacity) {
	const x = parseInt(hex.slice(1), 16);
	return ((255 * opacity << 24) | (x & 255) << 16 | (x & 0xff00) | x >> 16) >>> 0;
}
/* Jobs and gaps as pixels: a canvas takes ten times as long for thousands of rectangles. A row is three
 * lines of pixels, drawn as high as they are to be: the upper part, the lower one, light where a weight gradient is, and a rim
 * that names the cause of a gap. */
function draw_rows(context, area, t, row) {
	const scale = devicePixelRatio || 1, width = Math.max(1, Math.round(area.width * scale)), space = Math.round(scale);
	const image = new ImageData(width, 3 * t.jobs.length), pixels = new Uint32Array(image.data.buffer);
	const per_ns = width / (view.to - view.from), at = ns => Math.max(0, Math.min(width, Math.round((ns - view.from) * per_ns)));
	const light = HUES.map(hue => pixel(hue[0], 1)), dark = HUES.map(hue => pixel(hue[1], 1)), update = pixel(colour('faint'), 1);
	const idle = Object.fromEntries(Object.keys(CAUSES).map(x => [x, [0.18, 0.18, 0.75].map(y => pixel(colour(x), y))]));
	t.jobs.forEach((jobs, w) => {
		const gaps = t.gaps[w], bands = [0, 1, 2].map(k => pixels.subarray((3 * w + k) * width, (3 * w + k + 1) * width));
		for (let i = first_after(gaps, 3, view.from); i < gaps.length && gaps[i][2] < view.to; i++)
			bands.forEach((band, k) => band.fill(idle[gaps[i][1]][k], at(gaps[i][2]), at(gaps[i][3])));
		for (let i = first_after(jobs, 4, view.from); i < jobs.length && jobs[i][3] < view.to; i++) {
			const [, b, d, start, end] = jobs[i], left = at(start), right = at(end), until = Math.max(left + 1, right - left > 3 * space ? right - space : right);
			const above = d === 'U' ? update : d === 'F' ? light[b % HUES.length] : dark[b % HUES.length];
			const below = d === 'W' ? light[b % HUES.length] : above;
			for (let x = left; x < until && x < width; x++) {
				bands[0][x] = above;
				bands[1][x] = bands[2][x] = below;
			}
		}
	});
	const drawn = el('canvas', {width, height: image.height}), edges = [1, 1 + 0.6 * (row - 2), row - 4, row - 1];
	drawn.getContext('2d').putImageData(image, 0, 0);
	context.imageSmoothingEnabled = false;
	for (let line = 0; line < image.height; line++) {
		const [y, end] = [0, 1].map(k => Math.round((Math.floor(line / 3) * row + edges[line % 3 + k]) * scale) / scale);
		if (end > y) context.drawImage(drawn, 0, line, width, 1, area.left, y, area.width, end - y);
	}
}
function draw_labels(context, area, jobs, y, height) {
	context.textAlign = 'center';
	for (let i = first_after(jobs, 4, view.from); i < jobs.length && jobs[i][3] < view.to; i++) {
		const [, b, d, start, end] = jobs[i];
		if ((end - start) / (view.to - view.from) * area.width < 7) continue;
		const x = Math.max(area.left, place(area, start)), width = Math.min(area.left + area.width, place(area, end)) - x;
		const whole = name_of(jobs[i]), label = whole.length * 7 < width ? whole : String(b).length * 7 < width ? String(b) : '';
		context.fillStyle = d === 'F' ? '#111' : d === 'U' ? colour('card') : HUES[b % HUES.length][2];
		context.fillText(label, x + width / 2, y + (d === 'W' ? height * 0.32 : height / 2));
	}
}
function draw_path(context, area, t, row) {
	context.save();
	context.beginPath();
	context.rect(area.left, 0, area.width, area.height);
	context.clip();
	context.strokeStyle = colour('accent');
	context.lineWidth = 2;
	context.lineJoin = 'round';
	context.beginPath();
	let last = null;
	for (const [w, start, end, item] of t.path) {
		const y = (w + 1) * row - 3, x = place(area, start), right = place(area, end);
		if (x > area.left + area.width) break;
		if (right >= area.left) {
			if (last) context.moveTo(last[0], last[1]);
			/* a transfer goes from the row before to the one where it arrives */
			if (item === null || !last) { if (last) context.lineTo(right, y); else context.moveTo(right, y); }
			else { context.lineTo(x, y); context.lineTo(right, y); }
			if (!last && item !== null) { context.moveTo(x, y); context.lineTo(right, y); }
		}
		last = [right, y];
	}
	context.stroke();
	context.restore();
}

/* The jobs of the stage that is pointed out, those that run at the time of playback, and what is dragged. */
function draw_marks(context, area, t, row) {
	const outline = (w, [, , , start, end]) => {
		const x = Math.max(area.left, place(area, start)), right = Math.min(area.left + area.width, place(area, end));
		if (right > x) context.rect(x, w * row + 1, Math.max(1, right - x - 1), row - 2);
	};
	context.strokeStyle = colour('text');
	context.lineWidth = 1.5;
	context.beginPath();
	t.jobs.forEach((jobs, w) => {
		for (let i = first_after(jobs, 4, view.from); marks.stage !== null && i < jobs.length && jobs[i][3] < view.to; i++)
			if (jobs[i][0] === marks.stage) outline(w, jobs[i]);
	});
	context.stroke();
	draw_clock(context, area, row * t.jobs.length);
	context.lineWidth = 2.5;
	context.beginPath();
	if (marks.clock !== null) for (const [w, job] of running(t, marks.clock)) outline(w, job);
	context.stroke();
	if (!marks.ghost || marks.ghost.t !== t) return;
	context.fillStyle = colour('accent');
	context.globalAlpha = 0.6;
	context.fillRect(place(area, marks.ghost.from), marks.ghost.w * row, Math.max(3, place(area, marks.ghost.to) - place(area, marks.ghost.from)), row);
	context.globalAlpha = 1;
	context.fillStyle = colour('text');
	context.textAlign = 'left';
	context.fillText(marks.ghost.text, Math.min(place(area, marks.ghost.to) + 5, area.left + area.width - 90), marks.ghost.w * row + row / 2);
}
function draw_clock(context, area, height) {
	if (marks.clock === null || marks.clock < view.from || marks.clock > view.to) return;
	context.fillStyle = colour('accent');
	context.fillRect(place(area, marks.clock) - 1, 0, 2, height);
}

let editor = null; /* of the page that computes: (timeline, height of a row) -> the handle of its chart, or null */
let path_shown = true;
function prepare(t) {
	t.gaps = t.jobs.map(() => []);
	for (const gap of t.idle) t.gaps[gap[0]].push(gap);
	t.critical = new Set(t.path.filter(part => part[3] !== null).map(part => part[0] + ':' + part[3]));
}
function row_height(n) { return Math.max(9, Math.min(30, Math.floor(640 / n))); }
function gutter_of(t) { return innerWidth > 640 ? Math.min(170, 16 + 7 * Math.max(...t.workers.map(x => x.length))) : 34; }
function worker_label(context, t, w, gutter, y) {
	context.textAlign = 'left';
	context.fillStyle = colour('text');
	context.fillText(gutter > 34 ? t.workers[w] : 'w' + w, 2, y, gutter - 6);
}
function timeline_chart(t) {
	const n = t.workers.length, row = row_height(n), gutter = gutter_of(t);
	const draw = (context, area) => {
		draw_axis(context, area, n * row);
		draw_rows(context, area, t, row);
		for (let w = 0; w < n; w++) {
			if (row > 9 || w % 2 === 0) worker_label(context, t, w, gutter, w * row + row / 2);
			if (row >= 14) draw_labels(context, area, t.jobs[w], w * row + 1, row - 2);
		}
		if (path_shown) draw_path(context, area, t, row);
	};
	const hover = (x, y, area) => {
		const w = Math.floor(y / row), ns = view.from + (x - area.left) / area.width * (view.to - view.from);
		const inside = w >= 0 && w < n && x >= area.left && ns <= t.makespan;
		const i = inside ? first_after(t.jobs[w], 4, ns) : 0, job = inside ? t.jobs[w][i] : null;
		set_stage(job && job[3] <= ns ? job[0] : null);
		if (marks.stage !== null) return describe_job(t, w, i);
		const gap = inside ? t.gaps[w][first_after(t.gaps[w], 3, ns)] : null;
		return gap && gap[2] <= ns ? describe_gap(t, w, gap, i) : null;
	};
	return chart({height: n * row + 20, gutter, draw, hover, moves: true, label: 'timeline ' + t.name + ', a row a worker',
		mark: (context, area) => draw_marks(context, area, t, row), handle: editor && editor(t, row)});
}

/* What a worker keeps besides stashes, from the report. */
function base_of(t, w) {
	const workers = (t.report || report).worker, worker = workers && workers[w];
	return worker && worker.memory_bytes ? worker.memory_bytes - (worker.peak_stash_bytes || 0) : 0;
}
function memory_chart(t) {
	const n = t.workers.length, row = Math.max(14, Math.min(44, Math.floor(500 / n))), gutter = gutter_of(t);
	const sized = t.stash.some(points => points.some(point => point[2])) || t.workers.some((_, w) => base_of(t, w));
	const value = (w, point) => sized ? base_of(t, w) + point[2] : point[1];
	const print = x => sized ? size(x) : x + (x === 1 ? ' stash' : ' stashes');
	const peaks = t.stash.map((points, w) => points.reduce((x, point) => Math.max(x, value(w, point)), sized ? base_of(t, w) : 0));
	const peak = Math.max(1e-9, ...peaks), near = t.limits.filter(x => sized && x && x < 2 * peak), most = Math.max(peak, ...near);
	const draw = (context, area) => {
		draw_axis(context, area, n * row);
		for (let w = 0; w < n; w++) {
			const bottom = (w + 1) * row - 1, height = x => (row - 3) * x / most, base = sized ? base_of(t, w) : 0;
			worker_label(context, t, w, gutter, w * row + row / 2);
			context.fillStyle = colour('base');
			context.fillRect(area.left, bottom - height(base), Math.max(0, Math.min(area.width, place(area, t.makespan) - area.left)),
				height(base));
			context.fillStyle = colour('stash');
			context.beginPath();
			const points = t.stash[w];
			for (let i = Math.max(0, first_after(points, 0, view.from) - 1); i < points.length && points[i][0] < view.to; i++) {
				const x = Math.max(area.left, place(area, points[i][0])), up = height(value(w, points[i]) - base);
				const right = i + 1 < points.length ? place(area, points[i + 1][0]) : place(area, t.makespan);
				context.rect(x, bottom - height(base) - up, Math.max(0, Math.min(area.left + area.width, right) - x + 0.5), up);
			}
			context.fill();
			context.fillStyle = colour('line');
			context.fillRect(area.left, bottom, area.width, 1);
			if (!sized || !t.limits[w] || t.limits[w] > most) continue;
			context.fillStyle = colour('accent');
			context.fillRect(area.left, bottom - height(t.limits[w]), area.width, 1);
		}
	};
	const hover = (x, y, area) => {
		const w = Math.floor(y / row), ns = view.from + (x - area.left) / area.width * (view.to - view.from);
		if (w < 0 || w >= n || x < area.left || ns > t.makespan) return null;
		const i = first_after(t.stash[w], 0, ns) - 1, point = t.stash[w][i] || [0, 0, 0];
		const limit = sized && t.limits[w] ? '; the limit is ' + print(t.limits[w]) : '';
		return [el('b', {}, t.workers[w]), ' at ' + time(ns), el('div', {}, print(value(w, point)) + ' of ' + print(peaks[w]) +
			' at the peak' + limit),
			el('div', {}, point[1] + (point[1] === 1 ? ' stash' : ' stashes') + (sized && base_of(t, w) ? ', ' + size(point[2]) +
				'; parameters and what is kept for them: ' + size(base_of(t, w)) : ''))];
	};
	return [chart({height: n * row + 20, gutter, draw, hover, moves: true, label: 'memory ' + t.name + ', a row a worker',
		mark: (context, area) => draw_clock(context, area, n * row)}), print(most)];
}
