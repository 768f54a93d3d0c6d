/* ---- the graph of the stages: one in each column after those that it reads, in rows near to its neighbours ---- */

const MOST_NODES = 1500;
let nodes_of_graph = [];

/* nodes: [{layer, y, before, after}], those of the stages first, then the bends of edges over several layers; ways: of each edge
 * the nodes that it goes through */
function layered(n, edges) {
	const nodes = Array.from({length: n}, () => ({layer: 0, y: 0, before: [], after: []}));
	const sorted = [...edges].sort((a, b) => a[0] - b[0]), latest = nodes.map(() => Infinity);
	for (const [from, to] of sorted) nodes[to].layer = Math.max(nodes[to].layer, nodes[from].layer + 1);
	for (const [from, to] of sorted.reverse()) /* as late as its readers let it be: branches end where they join */
		nodes[from].layer = latest[from] = Math.min(latest[from], nodes[to].layer - 1);
	const ways = edges.map(([from, to]) => {
		const way = [nodes[from]];
		for (let layer = nodes[from].layer + 1; layer < nodes[to].layer && nodes.length < MOST_NODES; layer++) {
			way.push({layer, y: 0, before: [], after: []});
			nodes.push(way[way.length - 1]);
		}
		way.push(nodes[to]);
		way.slice(1).forEach((node, i) => { node.before.push(way[i]); way[i].after.push(node); });
		return way;
	});
	const layers = [];
	for (const node of nodes) (layers[node.layer] = layers[node.layer] || []).push(node);
	for (const layer of layers) layer.forEach((node, i) => { node.y = i - (layer.length - 1) / 2; });
	for (let sweep = 0; sweep < 8; sweep++)
		for (const layer of sweep % 2 ? [...layers].reverse() : layers) settle(layer, sweep % 2 ? 'after' : 'before');
	return {nodes, ways, n_layers: layers.length};
}
/* To the middle of the neighbours on one side, a row apart. */
function settle(layer, side) {
	const middle = node => node[side].length ? sum(node[side].map(x => x.y)) / node[side].length : node.y;
	const wanted = new Map(layer.map(node => [node, middle(node)]));
	layer.sort((a, b) => wanted.get(a) - wanted.get(b) || a.y - b.y);
	layer.forEach((node, i) => { node.y = i ? Math.max(wanted.get(node), layer[i - 1].y + 1) : wanted.get(node); });
	const off = sum(layer.map(node => wanted.get(node) - node.y)) / layer.length;
	for (const node of layer) node.y += off;
}
function describe_stage(t, s) {
	const stage = t.stages[s], before = t.edges.filter(edge => edge[1] === s).map(edge => edge[0]), operators = operators_of(t, s);
	const costs = ['forward', 'backward', 'weight'].filter(pass => stage[pass]).map(pass => pass + ' ' + time(stage[pass] * 1e9));
	return [el('b', {}, 'stage ' + s), ' on ' + stage.workers.map(w => 'w' + w).join(', ') + (before.length ? ', after ' + before.join(', ') : ''),
		...[stage.part ? 'part of ' + part_of(stage) : '', operators ? 'operators: ' + operators : '', costs.join(', '),
			stage.parameter_bytes ? size(stage.parameter_bytes) + ' of parameters' + (stage.frozen ? ', frozen' : '') : '']
			.filter(x => x).map(x => el('div', {}, x))];
}
/* Pointed out in the graph and in the timelines. */
function set_stage(s) {
	if (marks.stage === s) return;
	for (const node of nodes_of_graph) node.classList.toggle('on', node.dataset.stage === String(s));
	set_marks({stage: s});
}
function graph() {
	const t = timelines[timelines.length - 1], n = t.stages.length, all = el('div', {class: 'scroll', role: 'group', 'aria-label': 'graph of the stages'});
	nodes_of_graph = [];
	if (n < 2 || n > MOST_NODES) return all;
	const {nodes, ways, n_layers} = layered(n, t.edges);
	const low = Math.min(...nodes.map(x => x.y)), rows = Math.max(...nodes.map(x => x.y)) - low + 1, width = 30, height = 22;
	const step = Math.max(width + 12, Math.min(90, (document.getElementById('main').clientWidth - 60) / n_layers)), row = rows > 12 ? height + 4 : height + 12;
	const x = node => node.layer * step + 4, y = node => (node.y - low + 0.5) * row;
	const inner = el('div', {class: 'graph'}), lines = el('div', {'aria-hidden': 'true'});
	inner.style.cssText = 'width: ' + (n_layers * step + 8) + 'px; height: ' + rows * row + 'px';
	/* numbers alone: no text of the model is read as HTML */
	lines.innerHTML = '<svg width="' + (n_layers * step + 8) + '" height="' + rows * row + '"><path d="' + ways.map(way => way.slice(1).map((node, i) => {
		const from = x(way[i]) + width, to = x(node), bend = (to - from) / 2;
		return 'M' + [x(way[i]) + (i ? 0 : width), y(way[i])] + (i ? 'H' + from : '') + 'C' + [from + bend, y(way[i]), to - bend, y(node), to, y(node)];
	}).join('')).join('') + '"/></svg>';
	inner.append(lines);
	nodes_of_graph = t.stages.map((stage, s) => {
		const button = el('button', {type: 'button', 'data-stage': s, tabindex: s ? -1 : 0,
			'aria-label': describe_stage(t, s).map(part => part.textContent || part).join('. ')}, s);
		button.style.cssText = 'left: ' + x(nodes[s]) + 'px; top: ' + (y(nodes[s]) - height / 2) + 'px; width: ' + width + 'px; height: ' + height + 'px';
		const point = () => {
			const box = button.getBoundingClientRect();
			set_stage(s);
			show_tip(box.left, box.bottom - 12, describe_stage(t, s));
		};
		const leave = () => { set_stage(null); hide_tip(); };
		for (const [type, act] of [['pointerenter', point], ['focus', point], ['pointerleave', leave], ['blur', leave]]) button.addEventListener(type, act);
		button.addEventListener('keydown', event => {
			const to = nodes_of_graph[s + ({ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key] || NaN)];
			if (!to) return;
			event.preventDefault();
			button.tabIndex = -1;
			to.tabIndex = 0;
			to.focus();
		});
		return button;
	});
	inner.append(...nodes_of_graph);
	all.append(inner);
	return all;
}
