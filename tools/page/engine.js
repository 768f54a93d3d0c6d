/* ---- the engine ---- */

async function unpacked(id) {
	const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), c => c.charCodeAt(0));
	return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip')));
}
/* In the worker: a command line on files, in a module of its own, as a process would be; the next one is made before it is
 * asked for. */
const IN_WORKER = `
let compiled, ready, last = Promise.resolve(), tell = () => {};
function make() {
	const out = [], err = [];
	let line = [];
	return new Promise((done, fail) => orrery({print: x => out.push(x), printErr: x => err.push(x), stderr: byte => {
		if (byte !== 10) return void line.push(byte & 255);
		err.push(new TextDecoder().decode(Uint8Array.from(line)));
		line = [];
		tell(err[err.length - 1]);
	}, instantiateWasm: (imports, begin) => { WebAssembly.instantiate(compiled, imports).then(begin, fail); return {}; }})
		.then(engine => done({engine, out, err}), fail));
}
async function run({id, args, files, wanted}) {
	const {engine, out, err} = await ready, made = {};
	tell = said => postMessage({id, said});
	for (const [name, text] of Object.entries(files)) {
		const folders = [];
		for (const x of name.split('/').slice(0, -1)) x === '..' ? folders.pop() : x !== '.' && folders.push(x);
		engine.FS.mkdirTree(folders.join('/'));
		engine.FS.writeFile(name, text);
	}
	let code;
	try { code = engine.callMain(args); } catch (e) { code = e.status === undefined ? 1 : e.status; if (e.status === undefined) err.push(String(e)); }
	for (const name of wanted) if (engine.FS.analyzePath(name).exists) made[name] = engine.FS.readFile(name);
	postMessage({id, code, out: out.join('\\n'), err: err.filter(x => x.startsWith('orrery: ')).join('\\n'), made}, Object.values(made).map(x => x.buffer));
	ready = make();
	ready.catch(() => {}); /* told when it is asked for */
}
onmessage = ({data}) => {
	if (data.compiled) { compiled = data.compiled; ready = make(); }
	else last = last.then(() => run(data)).catch(why => postMessage({id: data.id, code: 1, out: '', err: String(why), made: {}}));
};`;
const MOST_RUNS = 50; /* of a worker: browsers keep the memory of engines that have ended */
let parts = null, worker = null, n_runs = 0, n_own = 0;
const waiting = new Map();
async function start_worker() {
	parts = parts || Promise.all([unpacked('orrery-js').then(x => x.text()), unpacked('orrery-wasm').then(x => x.arrayBuffer()).then(x => WebAssembly.compile(x))]);
	const [script, compiled] = await parts, made = new Worker(URL.createObjectURL(new Blob([script, IN_WORKER], {type: 'text/javascript'})));
	made.onmessage = ({data}) => {
		const asked = waiting.get(data.id); /* none: an alarm of a command that has ended */
		if (!asked) return;
		if (data.said !== undefined) return asked.tell && asked.tell(data.said);
		waiting.delete(data.id);
		asked.resolve(data);
	};
	made.postMessage({compiled});
	return made;
}
/* {code, out, err, made: the bytes of the wanted files that there are}; tell: of each line on standard error */
async function run(args, files, wanted = [], tell = null) {
	if (++n_own > MOST_RUNS && !waiting.size) stop();
	worker = worker || start_worker();
	const id = ++n_runs, result = new Promise(resolve => waiting.set(id, {resolve, tell})), own = worker;
	const asked = await own;
	if (own === worker) asked.postMessage({id, args, files, wanted});
	return result;
}
function stop() {
	const old = worker;
	worker = start_worker();
	n_own = 1;
	if (old) old.then(x => x.terminate());
	for (const {resolve} of waiting.values()) resolve({code: 130, out: '', err: 'stopped', made: {}});
	waiting.clear();
}
