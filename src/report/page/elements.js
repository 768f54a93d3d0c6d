/* What is shown: set by show(). */
let data, report, timelines, units, longest;
const CAUSES = {warm_up: 'warm-up', drain: 'drain', transfer: 'waiting for a transfer', imbalance: 'imbalance', order: 'order of jobs'};
const PASSES = {F: 'forward', B: 'backward', W: 'weight gradient', U: 'update'};
/* of a microbatch: forward, backward and the text on it, as in --svg */
const HUES = [['#c2dfff', '#2273c3', '#fff'], ['#adf3fb', '#00a5b3', '#111'], ['#b8ebc8', '#008b4e', '#fff'],
	['#faecb6', '#c8a91f', '#111'], ['#ffdbbe', '#c97409', '#fff'], ['#ffcdc4', '#b34638', '#fff'],
	['#ffd9e6', '#d56897', '#111'], ['#dfd0ff', '#7751af', '#fff']];

/* ---- text and elements ---- */

function el(tag, attributes, ...children) {
	const node = document.createElement(tag);
	for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
	node.append(...children);
	return node;
}
function digits(x) { return String(Number(x.toPrecision(4))); }
function scaled(x, steps) {
	for (const [factor, name] of steps) if (Math.abs(x) >= factor) return digits(x / factor) + ' ' + name;
	return digits(x) + ' ' + steps[steps.length - 1][1];
}
function time(ns, bare) {
	if (!ns) return '0';
	return units ? digits(ns / 1e9) + (bare ? '' : ns === 1e9 ? ' unit' : ' units') : scaled(ns, [[1e9, 's'], [1e6, 'ms'], [1e3, '\u00b5s'], [1, 'ns']]);
}
function size(bytes) {
	return bytes ? scaled(bytes, [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB'], [1, 'B']]) : '0';
}
function percent(x) { return (100 * x).toFixed(1) + '%'; }
function words(name) { return name.replace(/_/g, ' '); }
const colours = new Map(); /* until the next redraw(): the browser takes longer to look one up than to draw with it */
function colour(name) {
	if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim());
	return colours.get(name);
}
function section(title, ...children) {
	const node = el('section', {}, el('h2', {}, title), ...children);
	document.getElementById('main').append(node);
	return node;
}
function key(name, background) {
	const square = el('i');
	square.style.background = background;
	return el('span', {class: 'key'}, square, name);
}
