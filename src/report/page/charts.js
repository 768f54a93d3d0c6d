/* ---- charts: canvases over one axis of time ---- */

const tip = document.getElementById('tip');
function show_tip(x, y, nodes) {
	tip.replaceChildren(...nodes);
	tip.hidden = false;
	const box = tip.getBoundingClientRect();
	tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + 'px';
	tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18) + 'px';
}
function hide_tip() { tip.hidden = true; }

let charts = [];
const view = {from: 0, to: 1};
function redraw() {
	colours.clear();
	for (const chart of charts) chart.draw();
}
/* What is pointed out in all charts: a time, a stage, and in one of them what is being dragged. */
const marks = {clock: null, stage: null, ghost: null};
function set_marks(changed) {
	Object.assign(marks, changed);
	for (const chart of charts) chart.mark();
}
function look(from, to) {
	const least = Math.min(longest, Math.max(10, longest / 1e6)), span = Math.min(longest, Math.max(least, to - from));
	view.from = Math.max(0, Math.min(longest - span, from));
	view.to = view.from + span;
	redraw();
}
function zoom(factor, at) {
	const middle = at === undefined ? (view.from + view.to) / 2 : at;
	look(middle - (middle - view.from) * factor, middle + (view.to - middle) * factor);
}

/* draw(context, area) and hover(x, y, area) -> nodes or null; moves: it pans and zooms in time; mark(context, area): what marks
 * says, over what is drawn; handle(x, y, area) -> what can be dragged from there, {cursor, move(x, y), drop()}, or null */
function chart({height, gutter, draw, hover, moves, label, mark, handle}) {
	const canvas = el('canvas', {tabindex: 0, role: 'img', 'aria-label': label});
	const area = {left: gutter, width: 0, height};
	canvas.style.height = height + 'px';
	let still = null, marked = false; /* what is drawn, without marks: kept while there are any */
	const self = {canvas, draw() {
		const scale = devicePixelRatio || 1, width = canvas.clientWidth;
		if (!width) return;
		still = null;
		marked = false;
		canvas.width = width * scale;
		canvas.height = height * scale;
		area.width = Math.max(1, width - gutter - 8);
		const context = canvas.getContext('2d');
		context.scale(scale, scale);
		context.font = '11px system-ui, "DejaVu Sans", sans-serif';
		context.textBaseline = 'middle';
		draw(context, area);
		self.mark();
	}, mark() {
		const wanted = Object.values(marks).some(x => x !== null);
		if (!mark || !area.width || !(wanted || marked)) return;
		const context = canvas.getContext('2d');
		context.save();
		context.setTransform(1, 0, 0, 1, 0, 0);
		context.globalCompositeOperation = 'copy';
		if (still) context.drawImage(still, 0, 0);
		else {
			still = el('canvas', {width: canvas.width, height: canvas.height});
			still.getContext('2d').drawImage(canvas, 0, 0);
		}
		context.restore();
		marked = wanted;
		if (wanted) mark(context, area);
	}};
	let pressed = null, dragged = null;
	const tell = event => {
		const nodes = hover(event.offsetX, event.offsetY, area), held = handle && handle(event.offsetX, event.offsetY, area);
		canvas.style.cursor = held ? held.cursor : '';
		if (nodes) show_tip(event.clientX, event.clientY, nodes); else hide_tip();
	};
	canvas.addEventListener('pointermove', event => {
		if (dragged && event.buttons) {
			dragged.move(event.offsetX, event.offsetY);
			return hide_tip();
		}
		if (pressed && moves && event.buttons) {
			const by = (pressed.x - event.clientX) / area.width * (pressed.to - pressed.from);
			look(pressed.from + by, pressed.to + by);
			return hide_tip();
		}
		tell(event);
	});
	canvas.addEventListener('pointerdown', event => {
		dragged = handle && !event.button ? handle(event.offsetX, event.offsetY, area) : null;
		if (dragged) canvas.setPointerCapture(event.pointerId);
		else pressed = {x: event.clientX, from: view.from, to: view.to};
		tell(event);
	});
	canvas.addEventListener('pointerup', () => {
		if (dragged) dragged.drop();
		pressed = dragged = null;
	});
	canvas.addEventListener('pointercancel', () => {
		dragged = null;
		set_marks({ghost: null});
	});
	canvas.addEventListener('pointerleave', event => {
		pressed = null;
		set_stage(null);
		if (event.pointerType !== 'touch') hide_tip(); /* a finger that tapped has left already */
	});
	if (moves) {
		const at = event => view.from + (event.offsetX - area.left) / area.width * (view.to - view.from);
		canvas.addEventListener('wheel', event => {
			if (!event.ctrlKey && !event.shiftKey) return;
			event.preventDefault();
			zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, at(event));
		}, {passive: false});
		canvas.addEventListener('dblclick', event => zoom(0.5, at(event)));
		canvas.addEventListener('keydown', event => {
			const step = (view.to - view.from) / 5;
			const keys = {'+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), 0: () => look(0, longest),
				ArrowLeft: () => look(view.from - step, view.to - step),
				ArrowRight: () => look(view.from + step, view.to + step)};
			if (!keys[event.key] || event.ctrlKey || event.metaKey) return void play_key(event);
			event.preventDefault();
			keys[event.key]();
		});
	}
	charts.push(self);
	return canvas;
}
function place(area, ns) { return area.left + (ns - view.from) / (view.to - view.from) * area.width; }

/* 1, 2 or 5 times a power of ten */
function round_step(span, n) {
	const least = span / n, power = 10 ** Math.floor(Math.log10(least));
	return [1, 2, 5, 10].map(x => x * power).find(x => x >= least * 0.999999);
}
function draw_axis(context, area, y) {
	const step = round_step(view.to - view.from, Math.max(2, area.width / 110));
	context.fillStyle = colour('faint');
	context.strokeStyle = colour('line');
	context.textAlign = 'center';
	for (let i = Math.ceil(view.from / step); i * step <= view.to; i++) {
		const x = place(area, i * step);
		context.beginPath();
		context.moveTo(x, 0);
		context.lineTo(x, y);
		context.stroke();
		context.fillText(time(i * step, true), Math.max(x, area.left + 4), y + 9);
	}
}
