/* Command lines through the engine, under node: for tools/page/check. Usage: node run.cjs FOLDER_OF_THE_ENGINE < COMMANDS
 * A command is a line of JSON, {"args": [..], "files": {name: text}}; so is each answer, {"code", "out", "err"}. */
'use strict';
const fs = require('fs'), path = require('path'), readline = require('readline');

const folder = path.resolve(process.argv[2]), make = require(path.join(folder, 'orrery.js'));
const wasmBinary = fs.readFileSync(path.join(folder, 'orrery.wasm'));

async function run({args, files}) {
	const out = [], err = [];
	const engine = await make({wasmBinary, print: x => out.push(x), printErr: x => err.push(x)});
	for (const [name, text] of Object.entries(files || {})) engine.FS.writeFile(name, text);
	let code;
	try { code = engine.callMain(args); } catch (e) { code = e.status === undefined ? String(e.stack) : e.status; }
	return {code, out: out.join('\n'), err: err.join('\n')};
}
(async () => {
	for await (const line of readline.createInterface({input: process.stdin}))
		process.stdout.write(JSON.stringify(await run(JSON.parse(line))) + '\n');
	process.exit(0); /* whatever timers the commands left */
})();
