'use strict';
/* The panel: what is typed becomes a command line, which the engine runs in a worker; what it draws is what the command's --html
 * holds. The state is the address's fragment, so that a link is a study and Back undoes. */

const form = document.getElementById('panel'), said = document.getElementById('said');
const OPTIONS = {schedule: '--schedule', workers: '--workers', microbatches: '--microbatches', costs: '--costs',
	activation: '--activation', bandwidth: '--bandwidth', latency: '--latency', memory: '--memory'};
/* What --html of simulate leaves: the command line, {graph, options: {name: text or null}, files: {path: text}}. */
const study = JSON.parse(document.getElementById('study').textContent);
const DEFAULTS = study ? typed(study) : {graph: 'towers:3,3/2', schedule: '1f1b', workers: '4', microbatches: '8', costs: '1,2'};

/* ---- the engine ---- */

async function unpacked(id) {
	const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), c => c.charCodeAt(0));
	return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip')));
}
/* In the worker: a command line on files, in a module of its own, as a process would be. */
const IN_WORKER = `
let compiled;
onmessage = async ({data: {bytes, id, args, files, wanted}}) => {
	if (bytes) return void (compiled = WebAssembly.compile(bytes));
	const out = [], err = [], module = await compiled;
	const engine = await orrery({print: x => out.push(x), printErr: x => err.push(x),
		instantiateWasm: (imports, done) => { WebAssembly.instantiate(module, imports).then(done); return {}; }});
	for (const [name, text] of Object.entries(files)) {
		const folders = [];
		for (const x of name.split('/').slice(0, -1)) x === '..' ? folders.pop() : x !== '.' && folders.push(x);
		engine.FS.mkdirTree(folders.join('/'));
		engine.FS.writeFile(name, text);
	}
	let code;
	try { code = engine.callMain(args); } catch (e) { code = e.status === undefined ? 1 : e.status; if (e.status === undefined) err.push(String(e)); }
	const made = {};
	for (const name of wanted) if (engine.FS.analyzePath(name).exists) made[name] = engine.FS.readFile(name, {encoding: 'utf8'});
	postMessage({id, code, out: out.join('\\n'), err: err.filter(x => x.startsWith('orrery: ')).join('\\n'), made});
};`;
let worker = null, n_runs = 0;
const waiting = new Map();
async function start_worker() {
	const script = await (await unpacked('orrery-js')).text(), bytes = await (await unpacked('orrery-wasm')).arrayBuffer();
	const made = new Worker(URL.createObjectURL(new Blob([script, IN_WORKER], {type: 'text/javascript'})));
	made.onmessage = ({data}) => { waiting.get(data.id)(data); waiting.delete(data.id); };
	made.postMessage({bytes});
	return made;
}
/* {code, out, err, made: the wanted files that there are} */
async function run(args, wanted = []) {
	worker = worker || start_worker();
	const own = await worker, id = ++n_runs, model = form.model.value;
	return new Promise(resolve => {
		waiting.set(id, resolve);
		own.postMessage({id, args, files: {...study?.files, ...(model ? {[form.graph.value]: model} : {})}, wanted});
	});
}
async function stop() {
	const old = worker;
	worker = null;
	(await old)?.terminate();
	for (const resolve of waiting.values()) resolve({code: 130, err: 'stopped', made: {}});
	waiting.clear();
}

/* ---- the command line ---- */

function state() { return Object.fromEntries([...new FormData(form)].filter(([, value]) => value.trim() !== '')); }
/* Words as a shell takes them: in quotes what has blanks. */
function split(text) { return (text.match(/(?:'[^']*'|\\.|[^\s'])+/g) || []).map(x => x.replace(/'([^']*)'|\\(.)/g, '$1$2')); }
function arguments_of(s, schedule) {
	const args = ['simulate', s.graph || ''];
	for (const [name, option] of Object.entries(OPTIONS)) {
		const value = name === 'schedule' ? schedule : s[name];
		if (value) args.push(option, value);
	}
	return [...args, ...split(s.more || '')];
}
/* A study as it would be typed; a long model is no part of the address. */
function typed({graph, options, files}) {
	const fields = {graph, model: files[graph]?.length < 1e5 ? files[graph] : ''}, more = [];
	for (const [name, value] of Object.entries(options))
		if (OPTIONS[name]) fields[name] = value;
		else more.push('--' + name, ...(value === null ? [] : [value]));
	return {...fields, more: quoted(more)};
}
function quoted(args) { return args.map(x => /^[\w.,:\/=+@%-]+$/.test(x) ? x : "'" + x.replace(/'/g, "'\\''") + "'").join(' '); }

/* ---- from what is typed to what is drawn ---- */

function data_of(html) {
	return JSON.parse(html.match(/<script type="application\/json" id="data">([^]*?)<\/script>/)[1]);
}
let n_drawn = 0;
async function simulate() {
	const s = state(), own = ++n_drawn, args = arguments_of(s, s.schedule), begun = performance.now();
	document.getElementById('command').textContent = 'orrery ' + quoted(args);
	document.body.classList.add('waits');
	document.getElementById('stop').disabled = false;
	const runs = [s.beside ? arguments_of(s, s.beside) : null, args].filter(x => x)
		.map(x => run([...x, '--html', 'page.html'], ['page.html']));
	const results = await Promise.all(runs), failed = results.find(x => x.code);
	if (own !== n_drawn) return; /* something else was typed meanwhile */
	document.getElementById('stop').disabled = true;
	said.textContent = failed ? failed.err : '';
	if (failed) return void (document.body.dataset.state = 'refused');
	document.body.classList.remove('waits');
	const pages = results.map(x => data_of(x.made['page.html'])), last = pages[pages.length - 1];
	last.timelines = pages.flatMap(x => x.timelines.map(t => Object.assign(t, {report: x.report})));
	if (pages.length > 1) last.timelines.forEach((t, i) => { t.name = [s.beside, s.schedule || 'the default'][i]; });
	show(last);
	document.body.dataset.state = 'drawn';
	document.body.dataset.took = String(Math.round(performance.now() - begun));
}
function read_address() {
	const given = new URLSearchParams(location.hash.slice(1));
	for (const field of form.elements) field.value = given.size ? given.get(field.name) || '' : DEFAULTS[field.name] || '';
	simulate().catch(why => { said.textContent = 'this browser lacks something that the page needs: ' + why; });
}
let last_typed = 0;
form.addEventListener('input', () => {
	clearTimeout(last_typed);
	last_typed = setTimeout(() => form.dispatchEvent(new Event('change')), 400);
});
form.addEventListener('change', () => {
	clearTimeout(last_typed);
	const address = '#' + new URLSearchParams(state());
	if (address !== location.hash) location.hash = address; /* which draws it */
});
form.addEventListener('submit', event => event.preventDefault());
addEventListener('hashchange', read_address);
document.getElementById('stop').addEventListener('click', stop);
for (const [id, option, name] of [['csv', '--csv', 'timeline.csv'], ['svg', '--svg', 'timeline.svg'], ['plan', '-o', 'plan.json']])
	document.getElementById(id).addEventListener('click', async () => {
		const s = state(), result = await run([...arguments_of(s, s.schedule), option, name], [name]);
		said.textContent = result.code ? result.err : '';
		if (result.code) return;
		const link = el('a', {href: URL.createObjectURL(new Blob([result.made[name]])), download: name});
		link.click();
	});
run(['schedules']).then(({out}) => {
	const names = out.split('\n').map(line => (line.match(/^([a-z0-9-]+)  /) || [])[1]).filter(x => x);
	document.getElementById('schedules').append(...names.map(x => el('option', {}, x)));
});
read_address();
