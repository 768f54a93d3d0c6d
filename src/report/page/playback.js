/* ---- playback: a time that moves ---- */

const SECONDS = 20; /* for what is in view */
let clock = {slider: null, button: null, says: null};
let frame = 0; /* that is asked for; 0: it does not play */

/* [worker, job] of those that run. */
function running(t, ns) {
	return t.jobs.map((jobs, w) => [w, jobs[first_after(jobs, 4, ns)]]).filter(([, job]) => job && job[3] <= ns);
}
/* The next start or end of a job after `ns`, or the last one before it. */
function event_beside(ns, after) {
	let found = after ? longest : 0;
	for (const t of timelines) for (const jobs of t.jobs) {
		const i = first_after(jobs, 4, ns);
		for (const job of jobs.slice(Math.max(0, i - 2), i + 1)) for (const at of [job[3], job[4]])
			if (after ? at > ns && at < found : at < ns && at > found) found = at;
	}
	return found;
}
function set_clock(ns) {
	ns = Math.max(0, Math.min(longest, ns));
	const said = timelines.map(t => {
		const jobs = running(t, ns), most = 8;
		return (timelines.length > 1 ? t.name + ': ' : '') + jobs.length + ' of ' + t.workers.length + ' workers run' + (jobs.length ? ': ' : '') +
			jobs.slice(0, most).map(([w, job]) => name_of(job) + ' on w' + w).join(', ') + (jobs.length > most ? ' \u2026' : '');
	}).join('; ');
	clock.slider.value = ns;
	clock.says.textContent = time(ns) + ': ' + said;
	clock.slider.setAttribute('aria-valuetext', clock.says.textContent);
	if (ns < view.from || ns > view.to) look(ns, ns + view.to - view.from);
	set_marks({clock: ns});
}
function pause() {
	cancelAnimationFrame(frame);
	frame = 0;
	clock.button.textContent = 'play';
}
function play() {
	if (frame) return pause();
	if (marks.clock === null || marks.clock >= longest) set_clock(view.from < longest ? view.from : 0);
	clock.button.textContent = 'pause';
	let last = performance.now();
	const step = now => {
		set_clock(marks.clock + Math.max(0, now - last) / 1000 / SECONDS * (view.to - view.from));
		last = now;
		if (marks.clock < longest) frame = requestAnimationFrame(step); else pause();
	};
	frame = requestAnimationFrame(step);
}
/* Of a key on the slider, or of one that a chart has no use for. */
function play_key(event) {
	const keys = {' ': play, ArrowRight: () => set_clock(event_beside(marks.clock || 0, true)), ArrowUp: () => keys.ArrowRight(),
		ArrowLeft: () => set_clock(event_beside(marks.clock || 0, false)), ArrowDown: () => keys.ArrowLeft()};
	if (!keys[event.key] || event.ctrlKey || event.metaKey || !clock.slider) return;
	if (event.key.startsWith('Arrow') && event.target !== clock.slider) return;
	event.preventDefault();
	keys[event.key]();
}
function playback() {
	clock = {slider: el('input', {type: 'range', min: 0, max: longest, step: 'any', value: 0, 'aria-label': 'time'}),
		button: el('button', {type: 'button'}, 'play'), says: el('span', {class: 'faint'})};
	clock.slider.addEventListener('input', () => { pause(); set_clock(Number(clock.slider.value)); });
	clock.slider.addEventListener('keydown', play_key);
	clock.button.addEventListener('click', play);
	return el('div', {class: 'tools playback'}, clock.button, clock.slider, clock.says);
}
