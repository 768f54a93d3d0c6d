/* ---- dragging: the edge of a job changes what its stage takes, a job elsewhere makes an order ---- */

const LEAST_WIDTH = 8, NEAR = 4; /* pixels: of a job that can be taken, and of its edge */

editor = (t, row) => t !== timelines[timelines.length - 1] || t.stages.some(x => x.part) ? null : (x, y, area) => {
	const ns = at => view.from + (at - area.left) / area.width * (view.to - view.from), near = ns(NEAR) - ns(0), w = Math.floor(y / row);
	if (document.body.dataset.state !== 'drawn' || document.body.classList.contains('waits') || x < area.left || w < 0 || w >= t.workers.length) return null;
	const job = t.jobs[w][first_after(t.jobs[w], 4, ns(x) - near)];
	if (!job || job[2] === 'U' || job[3] > ns(x) || job[4] - job[3] < near / NEAR * LEAST_WIDTH) return null;
	return job[4] - ns(x) < near ? edge_handle(t, w, job, ns, near) : job_handle(t, w, job, ns, x, row);
};
function edge_handle(t, w, job, ns, near) {
	const step = Math.max(1, round_step(near, 1)), from = job[3];
	let to = job[4];
	return {cursor: 'ew-resize', move(x) {
		to = from + Math.max(1, Math.round((ns(x) - from) / step)) * step;
		set_marks({ghost: {t, w, from, to, text: job[0] + job[2] + ': ' + time(to - from)}});
	}, drop() {
		set_marks({ghost: null});
		if (to !== job[4]) change_duration(t, w, job, to - from);
	}};
}
/* What a job took, as the model has it: of a backward that is not split, without the weight gradient that is known apart, and
 * without the forward that is run again; of one that is split in halves, the whole. */
function change_duration(t, w, [s, , d], ns) {
	const stage = t.stages[s], halves = d !== 'F' && stage.weight !== null && !t.weights, typed = form.durations.value.split(/[\s,]+/);
	/* the worker's speed, by a forward that has the model's duration */
	const forward = t.jobs[w].find(x => x[2] === 'F' && t.stages[x[0]].forward && !typed.some(y => y.startsWith(x[0] + 'F=')));
	if (forward) ns *= t.stages[forward[0]].forward * 1e9 / (forward[4] - forward[3]);
	if (halves) ns *= 2;
	else if (d === 'B' && stage.weight === null) ns -= (t.weights ? t.weights[s] : 0) + (stage.recompute ? stage.forward * 1e9 : 0);
	const name = s + (halves ? 'B' : d) + '=', kept = typed.filter(x => x && !x.startsWith(name));
	const text = x => String(Number(x.toPrecision(12)));
	ns = Math.max(0, Math.round(ns));
	change({durations: [...kept, name + (units ? text(ns / 1e9) : text(ns / 1e6) + 'ms')].join(' ')});
}
function job_handle(t, w, job, ns, x0, row) {
	let at = job[3], to = w;
	return {cursor: 'grab', move(x, y) {
		at = job[3] + ns(x) - ns(x0);
		to = Math.max(0, Math.min(t.workers.length - 1, Math.floor(y / row)));
		set_marks({ghost: {t, w: to, from: at, to: at + job[4] - job[3], text: name_of(job)}});
	}, drop() {
		set_marks({ghost: null});
		const others = list => list.filter(x => x !== job && x[2] !== 'U');
		const before = others(t.jobs[to]).find(x => x[3] + x[4] > 2 * at), after = t.jobs[w].slice(t.jobs[w].indexOf(job));
		if (to !== w || before !== others(after)[0]) change_order(t, job, to, before);
	}};
}
/* The order as the engine writes it, with one job elsewhere: before another one in its row, or at the end. */
async function change_order(t, job, to, before) {
	const s = state(), result = await run([...arguments_of(s, s.schedule), '--csv', 'moved.csv'], files_of({...s, order: s.schedule === 'order.csv' ? s.order : ''}), ['moved.csv']);
	if (result.code) return void (said.textContent = result.err);
	const name = ([s, b, d]) => s + (d === 'B' && t.stages.some(x => x.weight !== null) ? 'I' : d) + b;
	const rows = new TextDecoder().decode(result.made['moved.csv']).trimEnd().split('\n').map(line => line.split(',').filter(x => x !== name(job)));
	rows[to].splice(before ? rows[to].indexOf(name(before)) : rows[to].length, 0, name(job));
	/* cells without a job tell the order among workers, which matters to jobs of several workers alone */
	const alone = sum(t.jobs.map(jobs => jobs.filter(x => x[2] !== 'U').length)) === sum(rows.map(row => row.filter(x => x).length));
	lost = result.err;
	change({schedule: 'order.csv', order: rows.map(row => (alone ? row.filter(x => x) : row).join() || ',').join('\n') + '\n'});
}
