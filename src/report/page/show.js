/* ---- the page ---- */

function heading() {
	const path = report.model || report.graph || '', model = /\.\w+$/.test(path) ? path.split('/').pop() : path;
	const schedule = typeof report.schedule === 'string' ? report.schedule : '';
	const t = timelines[timelines.length - 1], m = [].concat(report.microbatches || []);
	const n_workers = Array.isArray(report.workers) ? report.workers.length : report.workers;
	const counted = (n, what) => n ? n + ' ' + what + (n === 1 ? '' : 's') : '';
	document.title = 'orrery ' + data.command + (model ? ': ' + model : '');
	document.getElementById('title').textContent = document.title;
	document.getElementById('subtitle').textContent = [schedule, t ? counted(t.stages.length, 'stage') : '', counted(n_workers, 'worker'),
		m.length ? m.join(' or ') + (m.join() === '1' ? ' microbatch' : ' microbatches') : '', report.alike ? 'the first of ' + report.alike + ' replicas' : ''].filter(x => x).join(', ');
	const shown = [['makespan', time], ['predicted_makespan', time], ['lower_bound', time], ['slowest_stage', time], ['one_worker', time],
		['bubble', percent], ['span_bubble', percent], ['throughput', percent], ['step_seconds', time], ['samples_per_second', digits],
		['loss', digits], ['accuracy', percent]];
	for (const [name, print] of shown)
		if (typeof report[name] === 'number')
			document.getElementById('figures').append(el('div', {class: 'figure'}, el('b', {}, print(report[name] * (print === time ? 1e9 : 1))),
				el('span', {}, name === 'step_seconds' ? 'a step' : name === 'throughput' ? 'throughput, of the ideal' : words(name))));
}
/* later: does what it is given when the timeline has been seen; without it, all is drawn at once */
function show(next, later = null) {
	data = next;
	({report, timelines} = data);
	units = timelines.length ? timelines[0].units : report.unit === 'units';
	const whole = !longest || (view.from <= 0 && view.to >= longest);
	longest = Math.max(1, ...timelines.map(t => t.makespan));
	if (whole || view.from >= longest) Object.assign(view, {from: 0, to: longest});
	else view.to = Math.min(view.to, longest);
	if (frame) pause();
	charts = [];
	Object.assign(marks, {clock: null, stage: null, ghost: null});
	const main = document.getElementById('main');
	main.style.minHeight = main.offsetHeight + 'px'; /* what is in view stays there */
	for (const node of [document.getElementById('figures'), main]) node.replaceChildren();
	hide_tip();
	heading();
	timelines.forEach(prepare);
	if (report.schedules) compare_section();
	if (timelines.length) timeline_section();
	if (later) redraw();
	(later || (act => act()))(() => { if (data === next) show_rest(); });
}
function show_rest() {
	if (timelines.length) memory_section();
	if (timelines.length > 1) beside_section();
	if (timelines.length) { bubbles_section(); path_section(); }
	if (data.losses.length) loss_section();
	if (timelines.length) stages_section();
	if (Array.isArray(report.worker)) workers_section();
	document.getElementById('main').style.minHeight = '';
	redraw();
}
const given = JSON.parse(document.getElementById('data').textContent);
if (given) show(given); /* a page with the engine has none at first */
addEventListener('resize', redraw);
addEventListener('pointerdown', event => { if (event.target.tagName !== 'CANVAS') hide_tip(); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
