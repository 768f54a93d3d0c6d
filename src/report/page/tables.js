/* ---- tables: a click on a heading sorts ---- */

/* columns: [{name, text (to the left), long, optional (left out where no row has anything)}]; rows: arrays of [shown, value] or
 * of what is both */
function table(all, every, classes) {
	const value_of = cell => Array.isArray(cell) ? cell[1] : cell;
	const kept = all.map((column, k) => !column.optional || every.some(row => value_of(row[k])));
	const columns = all.filter((_, k) => kept[k]), rows = every.map(row => row.filter((_, k) => kept[k]));
	const head = el('tr'), body = el('tbody');
	const lines = rows.map((row, i) => {
		const line = el('tr', classes && classes[i] ? {class: classes[i]} : {});
		row.forEach((cell, k) => {
			const [shown] = Array.isArray(cell) ? cell : [cell === null || cell === undefined ? '' : cell];
			line.append(el('td', {class: columns[k].long ? 'text long' : columns[k].text ? 'text' : ''}, shown));
		});
		return {line, values: row.map(value_of)};
	});
	columns.forEach((column, k) => {
		const button = el('button', {type: 'button'}, column.name);
		const th = el('th', {class: column.text ? 'text' : '', scope: 'col'}, button);
		button.addEventListener('click', () => {
			const down = th.getAttribute('aria-sort') === 'ascending';
			for (const other of head.children) other.removeAttribute('aria-sort');
			th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
			lines.sort((a, b) => order(a.values[k], b.values[k], down));
			body.append(...lines.map(x => x.line));
		});
		head.append(th);
	});
	body.append(...lines.map(x => x.line));
	return el('div', {class: 'scroll'}, el('table', {}, el('thead', {}, head), body));
}
/* What is not there comes last, either way. */
function order(a, b, down) {
	const missing = x => x === null || x === undefined || x === '';
	if (missing(a) || missing(b)) return missing(a) - missing(b);
	const c = typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', {numeric: true});
	return down ? -c : c;
}
