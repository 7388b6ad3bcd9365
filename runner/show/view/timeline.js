// The timeline: a canvas with a row for each worker.

const axis = 26, rowHigh = 20, most = 26; // axis and rowHigh are in pixels; most is the number of rows shown at once
const T = {run: 0, several: false, width: 1, from: 0, to: 1, rows: [], begin: 0, end: 1, picked: -1, hover: -1, drag: null, ink: {}, match: null};
const canvas = $("canvas"), pen = canvas.getContext("2d"), lanes = $("lanes");
const touches = new Map();
let gutter = 90, drawing = 0;

// colours reads the colours of the current theme from the style sheet.
const colours = () => {
	const probe = el("i");
	document.body.append(probe);
	for (const name of ["ok", "fail", "slow", "lost", "off", "run", "text", "quiet", "line", "back", "accent"]) {
		probe.style.color = `var(--${name})`;
		T.ink[name] = getComputedStyle(probe).color;
	}
	probe.remove();
	T.ink.hatch = {fail: hatch("fail", 1), slow: hatch("slow", -1), wait: hatch("line", 1, true)};
};
const hatch = (name, lean, clear) => {
	const tile = el("canvas", {width: 12, height: 12}), p = tile.getContext("2d");
	if (!clear) {
		p.fillStyle = T.ink[name];
		p.fillRect(0, 0, 12, 12);
	}
	p.strokeStyle = clear ? T.ink[name] : T.ink.back;
	p.lineWidth = clear ? 2 : 3;
	for (let x = -12; x <= 24; x += 12) {
		p.moveTo(x, lean > 0 ? 12 : 0);
		p.lineTo(x + 12, lean > 0 ? 0 : 12);
	}
	p.stroke();
	const pattern = pen.createPattern(tile, "repeat");
	pattern.setTransform(new DOMMatrix().scale(0.5));
	return pattern;
};

// layOut makes the rows of a run: each host, followed by its workers with their attempts.
const layOut = run => {
	const by = new Map();
	for (let i = 0; i < A.task.length; i++) {
		if (A.run[i] !== run || A.lane[i] < 0) continue;
		by.has(A.lane[i]) ? by.get(A.lane[i]).push(i) : by.set(A.lane[i], [i]);
	}
	const several = new Set([...by.keys()].map(l => D.lanes[l][0])).size > 1;
	Object.assign(T, {run, several, rows: [], begin: Infinity, end: -Infinity});
	let host = null;
	for (const lane of [...by.keys()].sort((a, b) => a - b)) {
		const list = by.get(lane).sort((a, b) => A.start[a] - A.start[b]);
		if (several && D.lanes[lane][0] !== host) T.rows.push({host: D.lanes[lane][0] || "this machine", list: []});
		host = D.lanes[lane][0];
		T.rows.push({lane, list});
		for (const i of list) {
			T.begin = Math.min(T.begin, A.start[i]);
			T.end = Math.max(T.end, endOf(i));
		}
	}
	if (T.begin > T.end) [T.begin, T.end] = [0, 1000];
	T.end = Math.max(T.end, T.begin + 1);
	for (const [k, row] of T.rows.entries()) for (const i of row.list) rowOf.set(i, k);
	const high = T.rows.length * rowHigh;
	$("tall").style.height = axis + high + 4 + "px";
	lanes.style.height = axis + Math.min(high, most * rowHigh) + 6 + "px";
};
const rowOf = new Map();

const width = () => T.width; // reading it from the element would force a layout
const xOf = ms => gutter + (ms - T.from) / (T.to - T.from) * (width() - gutter);
const timeAt = x => T.from + (x - gutter) / (width() - gutter) * (T.to - T.from);
const show = (from, to) => {
	const all = T.end - T.begin, pad = all * 0.01, wide = Math.min(Math.max(to - from, Math.min(1, all)), all + 2 * pad);
	T.from = Math.min(Math.max((from + to - wide) / 2, T.begin - pad), T.end + pad - wide);
	T.to = T.from + wide;
	draw();
};
const showAll = () => show(T.begin - (T.end - T.begin), T.end + (T.end - T.begin));
// middle returns the center for zooming: the selected attempt, if it is visible.
const middle = () => {
	const ms = T.picked >= 0 && A.run[T.picked] === T.run ? (A.start[T.picked] + endOf(T.picked)) / 2 : T.to;
	return T.from < ms && ms < T.to ? ms : (T.from + T.to) / 2;
};
const zoom = (factor, at = middle()) => show(at - (at - T.from) / factor, at + (T.to - at) / factor);
const pan = part => show(T.from + part * (T.to - T.from), T.to + part * (T.to - T.from));

const draw = () => drawing ||= requestAnimationFrame(() => {
	drawing = 0;
	paint();
});

// first returns the index in a row of the first attempt that ends after a time.
const first = (list, ms) => {
	let low = 0, high = list.length;
	while (low < high) {
		const mid = (low + high) >> 1;
		endOf(list[mid]) < ms ? low = mid + 1 : high = mid;
	}
	return low;
};

const paint = () => {
	const w = lanes.clientWidth, h = lanes.clientHeight, scale = devicePixelRatio || 1;
	gutter = w < 560 ? 46 : 96;
	if (w < 2 * gutter) return;
	T.width = w;
	if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) {
		[canvas.width, canvas.height] = [Math.round(w * scale), Math.round(h * scale)];
		canvas.style.width = w + "px";
		canvas.style.height = h + "px";
	}
	pen.setTransform(scale, 0, 0, scale, 0, 0);
	pen.clearRect(0, 0, w, h);
	pen.font = "12px system-ui, sans-serif";
	pen.textBaseline = "middle";
	paintBlocked(w, h);
	paintAxis(w, h);
	pen.save();
	pen.beginPath();
	pen.rect(0, axis, w, h - axis);
	pen.clip();
	const top = lanes.scrollTop;
	const shown = paint => {
		for (let k = Math.floor(top / rowHigh); k < T.rows.length && axis + k * rowHigh - top < h; k++) paint(T.rows[k], axis + k * rowHigh - top, w);
	};
	shown(paintRow);
	pen.clearRect(0, axis, gutter, h);
	shown(paintLabel);
	paintPicked(top);
	pen.restore();
	if (T.drag?.zoom && T.drag.moved) {
		pen.fillStyle = T.ink.accent;
		pen.globalAlpha = 0.2;
		pen.fillRect(Math.min(T.drag.x, T.drag.now), axis, Math.abs(T.drag.now - T.drag.x), h - axis);
		pen.globalAlpha = 1;
	}
};

const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5];
const paintAxis = (w, h) => {
	const step = steps.find(s => s >= (T.to - T.from) / (w - gutter) * 90) ?? Math.ceil((T.to - T.from) / 6 / 864e5) * 864e5;
	pen.textAlign = "left";
	for (let t = Math.ceil((T.from - T.begin) / step) * step; t <= T.to - T.begin; t += step) {
		const x = Math.round(xOf(T.begin + t)) + 0.5;
		pen.strokeStyle = T.ink.line;
		pen.beginPath();
		pen.moveTo(x, axis - 6);
		pen.lineTo(x, h);
		pen.stroke();
		pen.fillStyle = T.ink.quiet;
		const text = t === 0 ? "0" : t < 0 ? "" : span(t).replace(/(\D)0s$/, "$1").replace(/(\D)0m$/, "$1");
		if (x + pen.measureText(text).width < w) pen.fillText(text, x + 3, axis / 2 - 2);
	}
};

// paintBlocked marks the periods in which nothing started although a worker was free.
const paintBlocked = (w, h) => {
	pen.fillStyle = T.ink.hatch.wait;
	let last = -1;
	for (const [run, from, to] of D.blocked) {
		const x = Math.max(xOf(from), gutter, last), end = Math.min(xOf(to), w);
		if (run !== T.run || end <= x - 1 || end < gutter) continue;
		pen.fillRect(x, axis, Math.max(end - x, 1), h - axis);
		last = Math.max(end, x + 1);
	}
};

const paintLabel = (row, y) => {
	pen.fillStyle = row.host === undefined ? T.ink.quiet : T.ink.text;
	pen.textAlign = row.host === undefined ? "right" : "left";
	pen.font = row.host === undefined ? "12px system-ui, sans-serif" : "600 12px system-ui, sans-serif";
	const [host, worker] = D.lanes[row.lane] ?? [];
	pen.fillText(row.host ?? (worker || !T.several && host.slice(0, 12) || "·"), row.host === undefined ? gutter - 8 : 8, y + rowHigh / 2 + 1);
};
const paintRow = (row, y, w) => {
	const perPixel = (T.to - T.from) / (w - gutter), list = row.list;
	let same = null; // equal neighbouring columns are drawn together
	const flush = () => {
		if (!same) return;
		pen.globalAlpha = same.alpha;
		pen.fillStyle = T.ink[same.kind];
		pen.fillRect(same.from, y + 2, same.to - same.from + 0.3, rowHigh - 4);
		if (worse[same.kind] > 2) mark(same.from + 0.5, y, same.kind);
		pen.globalAlpha = 1;
		same = null;
	};
	for (let k = first(list, T.from); k < list.length && A.start[list[k]] <= T.to;) {
		const i = list[k], x = xOf(A.start[i]), wide = (endOf(i) - A.start[i]) / perPixel;
		if (wide >= 2) {
			flush();
			bar(i, x, y, wide);
			k++;
			continue;
		}
		// Attempts that are narrower than a column are drawn as one, the more opaque the fuller it is.
		const from = Math.floor(x), until = timeAt(from + 1);
		let full = 0, kind = "off", lit = !T.match;
		do {
			const j = list[k++];
			full += (endOf(j) - A.start[j]) / perPixel;
			if (worse[kindOf(j)] > worse[kind]) kind = kindOf(j);
			lit ||= T.match[j] === 1;
		} while (k < list.length && A.start[list[k]] < until && endOf(list[k]) - A.start[list[k]] < 2 * perPixel);
		const alpha = (lit ? 1 : 0.15) * (worse[kind] > 2 ? 1 : Math.round(Math.min(1, 0.3 + 0.7 * full) * 5) / 5);
		if (same?.to !== from || same.kind !== kind || same.alpha !== alpha || worse[kind] > 2) flush();
		same ??= {from, kind, alpha};
		same.to = from + 1;
	}
	flush();
};
const worse = {off: 0, ok: 1, run: 2, lost: 3, slow: 4, fail: 5};

// mark draws a mark on a failure, so that it differs not only in colour.
const mark = (x, y, kind) => {
	pen.fillStyle = T.ink[kind];
	pen.beginPath();
	pen.moveTo(x - 3.5, y);
	pen.lineTo(x + 3.5, y);
	pen.lineTo(x, y + 5);
	pen.fill();
};

const bar = (i, x, y, wide) => {
	const kind = kindOf(i), left = Math.max(x, gutter - 2), right = Math.min(x + wide, width() + 2), gap = right - left > 4 ? 0.75 : 0;
	pen.globalAlpha = !T.match || T.match[i] ? 1 : 0.15;
	pen.fillStyle = T.ink.hatch[kind] ?? T.ink[kind];
	if (kind === "run") pen.globalAlpha *= 0.55;
	pen.fillRect(left, y + 2, Math.max(right - left - gap, 1), rowHigh - 4);
	if (kind === "lost" || kind === "run") {
		pen.fillStyle = T.ink[kind];
		pen.fillRect(left, y + rowHigh - 5, Math.max(right - left - gap, 1), 3);
	}
	if (worse[kind] > 2) mark(Math.max(x, gutter) + 2, y, kind);
	if (A.attempt[i] > 1 && wide > 8) {
		pen.fillStyle = T.ink.back;
		pen.beginPath();
		pen.arc(left + 6, y + rowHigh / 2, 2.5, 0, 7);
		pen.fill();
	}
	pen.globalAlpha = 1;
};

// paintPicked frames the selected attempt and connects it with the other attempts of its task.
const paintPicked = top => {
	const yOf = i => axis + rowOf.get(i) * rowHigh - top;
	const frame = (i, ink, line) => {
		if (i < 0 || A.run[i] !== T.run || !rowOf.has(i)) return;
		const x = Math.max(xOf(A.start[i]), gutter - 2), right = Math.min(xOf(endOf(i)), width() + 2);
		if (right < gutter) return;
		pen.strokeStyle = ink;
		pen.lineWidth = line;
		pen.strokeRect(x - 1, yOf(i) + 1, Math.max(right - x, 2) + 1, rowHigh - 2);
		pen.lineWidth = 1;
	};
	frame(T.hover, T.ink.text, 1);
	if (T.picked < 0) return;
	const all = attemptsOf(T.picked).filter(i => rowOf.has(i));
	pen.strokeStyle = T.ink.accent;
	pen.lineWidth = 1.5;
	pen.setLineDash([4, 3]);
	for (let k = 1; k < all.length; k++) {
		pen.beginPath();
		pen.moveTo(Math.max(gutter, xOf(endOf(all[k - 1]))), yOf(all[k - 1]) + rowHigh / 2);
		pen.lineTo(Math.max(gutter, xOf(A.start[all[k]])), yOf(all[k]) + rowHigh / 2);
		pen.stroke();
	}
	pen.setLineDash([]);
	for (const i of all) frame(i, T.ink.accent, i === T.picked ? 2.5 : 1);
};
const attemptsOf = i => {
	const all = [];
	for (let k = 0; k < A.task.length; k++) if (A.task[k] === A.task[i] && A.run[k] === A.run[i]) all.push(k);
	return all.sort((a, b) => A.attempt[a] - A.attempt[b]);
};

// at returns the row at a point and the attempt there or close by, or -1.
const at = (x, y) => {
	const row = T.rows[Math.floor((y - axis + lanes.scrollTop) / rowHigh)];
	if (y < axis || x < gutter || !row) return [undefined, -1];
	const near = 3 * (T.to - T.from) / (width() - gutter), t = timeAt(x);
	let best = -1, worth = -1;
	for (let k = first(row.list, t - near); k < row.list.length && A.start[row.list[k]] <= t + near; k++) {
		const i = row.list[k], inside = A.start[i] <= t && endOf(i) >= t;
		const value = worse[kindOf(i)] + (inside ? 10 : 0);
		if (value > worth) [best, worth] = [i, value];
	}
	return [row, best];
};

const tip = $("tip");
const hint = (x, y, px, py) => {
	const [row, i] = at(x, y), t = timeAt(x);
	if (i !== T.hover) draw();
	T.hover = i;
	const why = D.blocked.find(b => b[0] === T.run && b[1] <= t && t <= b[2]);
	const facts = i >= 0 ? describe(i) : row?.lane !== undefined || (why && x > gutter && y > axis) ? idle(row, t, why) : null;
	tip.hidden = !facts;
	if (!facts) return;
	tip.replaceChildren(...facts.map(([name, value]) => el("div", {}, el("b", {textContent: name}), " ", String(value).slice(0, 200))));
	const box = lanes.getBoundingClientRect();
	tip.style.left = Math.max(0, Math.min(px + 14, box.width - tip.offsetWidth)) + "px";
	tip.style.top = lanes.offsetTop + (py + 18 + tip.offsetHeight > box.height + 60 ? py - tip.offsetHeight - 10 : py + 18) + "px";
};
const idle = (row, t, why) => {
	const facts = [];
	if (row?.list?.length) {
		const k = first(row.list, t), before = k > 0 ? endOf(row.list[k - 1]) : T.begin, after = k < row.list.length ? A.start[row.list[k]] : T.end;
		facts.push(["Idle", span(after - before)]);
	}
	if (why) facts.push(["Nothing started", `for ${span(Math.min(why[2], T.end) - why[1])}: ${why[3]}`]);
	return facts.length ? facts : null;
};

// pick selects an attempt, or none for -1, and shows its details.
const pick = (i, look = true) => {
	T.picked = i;
	$("detail").hidden = i < 0;
	if (i >= 0) {
		if (A.run[i] !== T.run && A.lane[i] >= 0) chooseRun(A.run[i]);
		if (look && rowOf.has(i)) reveal(i);
		showDetail(i);
		$("spoken").textContent = describe(i).map(f => f.join(" ")).join(", ");
	}
	draw();
};
const reveal = i => {
	const y = rowOf.get(i) * rowHigh, wide = T.to - T.from;
	if (y < lanes.scrollTop) lanes.scrollTop = y - rowHigh;
	if (y + rowHigh > lanes.scrollTop + lanes.clientHeight - axis) lanes.scrollTop = y + 2 * rowHigh + axis - lanes.clientHeight;
	if (endOf(i) < T.from || A.start[i] > T.to) show((A.start[i] + endOf(i) - wide) / 2, (A.start[i] + endOf(i) + wide) / 2);
};
const showDetail = i => {
	const all = attemptsOf(i), run = A.run[i], task = A.task[i];
	const tools = [];
	if (all.length > 1) {
		tools.push(el("span", {className: "quiet", textContent: "Attempts"}));
		for (const k of all) tools.push(button(`${A.attempt[k]}: ${outcomeOf(k)}`, () => pick(k), {ariaPressed: String(k === i)}));
	}
	if (hasFailure(run, task)) tools.push(button("Show its output", () => openFailure(run, task)));
	tools.push(button("Zoom to it", () => rowOf.has(i) && (show(A.start[i] - (endOf(i) - A.start[i]), 2 * endOf(i) - A.start[i]))));
	tools.push(...steer(i));
	$("detail").replaceChildren(
		el("dl", {}, ...describe(i).map(([name, value]) => el("div", {className: name === "Command" ? "whole" : ""}, el("dt", {textContent: name}), el("dd", {textContent: value})))),
		el("div", {className: "tools"}, ...tools));
};
let steer = () => []; // the buttons of a live task

// step selects the next attempt in the row, or the closest one in another row.
const step = (along, across) => {
	let i = T.picked;
	if (i < 0 || !rowOf.has(i) || A.run[i] !== T.run) {
		const row = T.rows.find(r => r.list.length);
		return row && pick(row.list[Math.min(first(row.list, T.from), row.list.length - 1)]);
	}
	let k = rowOf.get(i);
	if (across) {
		do k += across; while (T.rows[k] && !T.rows[k].list.length);
		const list = T.rows[k]?.list;
		return list && pick(list[Math.min(first(list, A.start[i]), list.length - 1)]);
	}
	const list = T.rows[k].list, next = list[Math.min(Math.max(list.indexOf(i) + along, 0), list.length - 1)];
	return pick(next);
};

const chooseRun = run => {
	rowOf.clear();
	layOut(run);
	$("run").value = run;
	showAll();
};
