/* ---- the panel: what is typed becomes a command line, and what the engine says of it is drawn. The state is the address's
 * fragment, so that a link is a study and Back undoes. ---- */

const form = document.getElementById('panel'), said = document.getElementById('said'), progress = document.getElementById('progress');
const OPTIONS = {schedule: '--schedule', workers: '--workers', microbatches: '--microbatches', costs: '--costs',
	activation: '--activation', bandwidth: '--bandwidth', latency: '--latency', memory: '--memory'};
/* What --html of simulate leaves: the command line, {graph, options: {name: text or null}, files: {path: text}}. */
const study = JSON.parse(document.getElementById('study').textContent);
const DEFAULTS = study ? typed(study) : {graph: 'towers:3,3/2', schedule: '1f1b', workers: '4', microbatches: '8', costs: '1,2'};

function state() {
	return Object.fromEntries([...new FormData(form)].filter(([, value]) => value.trim() !== ''));
}
/* Words as a shell takes them: in quotes what has blanks. */
function split(text) { return (text.match(/(?:'[^']*'|\\.|[^\s'])+/g) || []).map(x => x.replace(/'([^']*)'|\\(.)/g, '$1$2')); }
function arguments_of(s, schedule) {
	const args = ['simulate', s.graph || ''];
	for (const [name, option] of Object.entries(OPTIONS)) {
		const value = name === 'schedule' ? schedule : s[name];
		if (value) args.push(option, value);
	}
	return [...args, ...split(s.more || ''), ...(s.durations ? ['--microbatch-costs', 'costs.csv'] : [])];
}
/* Durations of single stages, 3F=1.5ms, are those of all their microbatches. */
function costs_csv(s) {
	const ordered = (s.order || '').split(/[\s,]+/).reduce((n, x) => Math.max(n, 1 + Number((x.match(/^\d+[A-Z](\d+)$/) || [0, -1])[1])), 0);
	const m = Number(s.microbatches) || ordered || [].concat(report?.microbatches || 8)[0];
	const all = [...Array(Number.isInteger(m) && m > 0 && m < 1e5 ? m : 1).keys()]; /* else the command has a word for it */
	const rows = s.durations.split(/[\s,]+/).filter(x => x).flatMap(x => {
		const [, stage, pass, duration] = x.match(/^(\d+)([FBW])=(.*)$/) || [x, x, '', ''];
		return all.map(b => [stage, b, pass, duration].join());
	});
	return ['stage,microbatch,pass,duration', ...rows].join('\n') + '\n';
}
/* A study as it would be typed; a long model is no part of the address. */
function typed({graph, options, files}) {
	const fields = {graph, model: files[graph]?.length < 1e5 ? files[graph] : ''}, more = [];
	for (const [name, value] of Object.entries(options))
		if (OPTIONS[name]) fields[name] = value;
		else more.push('--' + name, ...(value === null ? [] : [value]));
	return {...fields, more: quoted(more)};
}
function files_of(s) {
	const own = study?.files[s.graph] === undefined ? 'model.dot' : s.graph;
	const ordered = [s.schedule, s.beside].includes('order.csv') && s.order, files = {...study?.files};
	for (const [name, text] of [[own, s.model], ['order.csv', ordered], ['costs.csv', s.durations && costs_csv(s)]])
		if (text) files[name] = text;
	return files;
}
function quoted(args) { return args.map(x => /^[\w.,:\/=+@%-]+$/.test(x) ? x : "'" + x.replace(/'/g, "'\\''") + "'").join(' '); }
function parsed(bytes) { return JSON.parse(new TextDecoder().decode(bytes)); }

let n_drawn = 0, lost = ''; /* what an order as CSV does not say */
async function simulate() {
	const s = state(), own = ++n_drawn, args = arguments_of(s, s.schedule), begun = performance.now();
	if (waiting.size) stop(); /* nobody waits for it any more */
	document.getElementById('command').textContent = 'orrery ' + quoted(args);
	document.body.classList.add('waits');
	document.getElementById('stop').disabled = false;
	progress.textContent = '';
	const tell = line => { if (own === n_drawn && !line.startsWith('orrery: ')) progress.textContent = line; };
	const results = await Promise.all([...(s.beside ? [arguments_of(s, s.beside)] : []), args]
		.map(x => run([...x, '--html', 'data.json'], files_of(s), ['data.json'], tell)));
	if (own !== n_drawn) return; /* something else was typed meanwhile */
	const drawn = results.filter(x => !x.code && x.made['data.json']), failed = results.find(x => !drawn.includes(x));
	const which = results.length > 1 && failed === results[0] ? s.beside + ': ' : '';
	document.getElementById('stop').disabled = true;
	said.textContent = failed ? which + (failed.err || failed.out) : lost;
	list_schedules().catch(lacks);
	lost = '';
	if (!drawn.includes(results[results.length - 1])) return void (document.body.dataset.state = 'refused');
	progress.textContent = '';
	document.body.classList.remove('waits');
	const pages = drawn.map(x => parsed(x.made['data.json'])), last = pages[pages.length - 1];
	last.timelines = pages.flatMap(x => x.timelines.map(t => Object.assign(t, {report: x.report})));
	if (pages.length > 1) last.timelines.forEach((t, i) => { t.name = [s.beside, s.schedule || 'the default'][i]; });
	const took = () => String(Math.round(performance.now() - begun));
	show(last, act => setTimeout(() => {
		act();
		document.body.dataset.all = took();
		document.body.dataset.state = 'drawn';
	}));
	document.body.dataset.took = took();
}
function lacks(why) { said.textContent = 'this browser lacks something that the page needs: ' + why; }
function read_address() {
	const given = new URLSearchParams(location.hash.slice(1));
	const known = [...form.elements].some(field => given.has(field.name));
	for (const field of form.elements) field.value = known ? given.get(field.name) || '' : DEFAULTS[field.name] || '';
	simulate().catch(lacks);
}
let last_typed = 0;
function change(fields) {
	for (const [name, value] of Object.entries(fields)) form[name].value = value;
	form.dispatchEvent(new Event('change'));
}
form.addEventListener('input', () => {
	clearTimeout(last_typed);
	last_typed = setTimeout(change, 400, {});
});
form.addEventListener('change', () => {
	clearTimeout(last_typed);
	const address = '#' + new URLSearchParams(state());
	if (address !== location.hash) location.hash = address; /* which draws it */
	else if (document.body.dataset.state === 'refused') simulate().catch(lacks); /* such as what was stopped */
});
form.addEventListener('submit', event => event.preventDefault());
addEventListener('hashchange', read_address);
document.getElementById('stop').addEventListener('click', stop);

function save(name, content) { el('a', {href: URL.createObjectURL(new Blob([content])), download: name}).click(); }
for (const [id, option, name] of [['csv', '--csv', 'timeline.csv'], ['svg', '--svg', 'timeline.svg'], ['plan', '-o', 'plan.json']])
	document.getElementById(id).addEventListener('click', async () => {
		const s = state(), result = await run([...arguments_of(s, s.schedule), option, name], files_of(s), [name]);
		said.textContent = result.err;
		if (!result.code) save(name, result.made[name]);
	});
document.getElementById('files').addEventListener('click', () => { for (const file of Object.entries(files_of(state()))) save(...file); });
async function list_schedules() {
	const list = document.getElementById('schedules');
	if (list.children.length) return;
	const {out} = await run(['schedules'], {}), names = out.split('\n').map(line => (line.match(/^([a-z0-9-]+)  /) || [])[1]).filter(x => x);
	list.replaceChildren(...names.map(x => el('option', {}, x)));
}
if (innerWidth < 700) document.getElementById('fold').open = false; /* the drawing first */
read_address();
