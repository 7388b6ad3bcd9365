// The start of the page, and its keys and pointers.

const moves = {left: () => pan(-0.25), right: () => pan(0.25), in: () => zoom(1.6), out: () => zoom(1 / 1.6), all: showAll};
const keys = {
	"+": moves.in, "=": moves.in, "-": moves.out, "0": moves.all, Escape: () => pick(-1),
	ArrowLeft: e => e.shiftKey ? moves.left() : step(-1, 0), ArrowRight: e => e.shiftKey ? moves.right() : step(1, 0),
	ArrowUp: () => step(0, -1), ArrowDown: () => step(0, 1), Home: () => step(-Infinity, 0), End: () => step(Infinity, 0),
	Enter: () => T.picked >= 0 && $("detail").querySelector("button")?.focus(),
};

const place = e => {
	const box = canvas.getBoundingClientRect();
	return [e.clientX - box.left, e.clientY - box.top];
};
const startPointers = () => {
	canvas.addEventListener("pointerdown", e => {
		const [x, y] = place(e);
		touches.set(e.pointerId, x);
		canvas.setPointerCapture(e.pointerId);
		T.drag = {x, y, now: x, zoom: e.pointerType === "mouse" && !e.shiftKey && e.button === 0 && y > axis, moved: false, from: T.from, to: T.to};
	});
	canvas.addEventListener("pointermove", e => {
		const [x, y] = place(e), d = T.drag;
		if (!d) return hint(x, y, x, y);
		tip.hidden = true;
		if (touches.size === 2 && touches.has(e.pointerId)) return pinch(e.pointerId, x);
		d.now = x;
		d.moved ||= Math.abs(x - d.x) > 4;
		if (d.zoom) return draw();
		const by = (d.x - x) / (width() - gutter) * (d.to - d.from);
		if (d.moved) show(d.from + by, d.to + by);
	});
	const up = e => {
		const d = T.drag;
		touches.delete(e.pointerId);
		T.drag = null;
		if (!d || e.type === "pointercancel") return;
		if (!d.moved) {
			const i = at(d.x, d.y)[1];
			pick(i, false);
		} else if (d.zoom) show(timeAt(Math.min(d.x, d.now)), timeAt(Math.max(d.x, d.now)));
	};
	canvas.addEventListener("pointerup", up);
	canvas.addEventListener("pointercancel", up);
	canvas.addEventListener("pointerleave", () => {
		tip.hidden = true;
		T.hover = -1;
		draw();
	});
	canvas.addEventListener("wheel", e => {
		const [x] = place(e);
		if (e.ctrlKey || e.metaKey) zoom(Math.exp(-e.deltaY / 200), timeAt(x));
		else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan((e.deltaX || e.deltaY) / width());
		else return;
		e.preventDefault();
	}, {passive: false});
	lanes.addEventListener("scroll", draw);
};
const pinch = (id, x) => {
	const before = [...touches.values()], old = Math.abs(before[0] - before[1]);
	touches.set(id, x);
	const after = [...touches.values()], wide = Math.abs(after[0] - after[1]);
	T.drag.moved = true;
	T.drag.zoom = false;
	if (old > 10 && wide > 10) zoom(wide / old, timeAt((after[0] + after[1]) / 2));
	Object.assign(T.drag, {x, from: T.from, to: T.to});
};

// follow obeys the fragment of the URL: #q=WORDS, #t=RUN.TASK.
const follow = () => {
	const asked = new URLSearchParams(location.hash.slice(1));
	if (asked.has("theme")) setTheme(asked.get("theme") === "dark");
	if (asked.has("q")) {
		$("search").value = asked.get("q");
		search(asked.get("q"));
	}
	const [run, task] = (asked.get("t") ?? "").split(".").map(Number);
	for (let i = A.task.length - 1; i >= 0 && asked.has("t"); i--) {
		if (A.task[i] === task && A.run[i] === run && A.final[i]) return look(i);
	}
	if (asked.has("t")) openFailure(run, task);
};

const legend = () => {
	const kinds = {ok: [], fail: [], slow: [], lost: [], off: [], run: []};
	for (const o of [...new Set(A.outcome)].sort((a, b) => a - b)) kinds[D.kinds[o][1]].push(o ? D.kinds[o][0] : document.body.dataset.live ? "running" : "end unknown");
	$("legend").replaceChildren(...Object.entries(kinds).filter(([, names]) => names.length).map(([k, names]) => el("li", {}, el("i", {className: k}), names.join(", "))),
		...A.attempt.some(n => n > 1) ? [el("li", {textContent: "• a retry"})] : [],
		...D.blocked.length ? [el("li", {}, el("i", {className: "wait"}), "nothing started although a worker was free")] : []);
};

const start = async () => {
	await read();
	$("search").hidden = $("tasks").hidden = !A.task.length && !document.body.dataset.live;
	$("timeline").hidden = !A.task.length;
	share();
	showFailures();
	document.addEventListener("toggle", e => e.target.matches(".failure") && showEnd(e.target), true);
	for (const t of document.querySelectorAll("table.long")) shorten(t);
	addEventListener("theme", () => {
		colours();
		draw();
	});
	startTheme();
	const runs = [...new Set(A.run)].sort((a, b) => a - b);
	$("run").replaceChildren(...runs.map(r => el("option", {value: r, textContent: D.runs[r]?.name ?? ""})));
	$("run").hidden = runs.length < 2;
	legend();
	chooseRun(runs.at(-1) ?? 0);
	search("");
	startPointers();
	listen();
	follow();
};
const listen = () => {
	for (const b of document.querySelectorAll("[data-do]")) b.onclick = moves[b.dataset.do];
	canvas.addEventListener("keydown", e => {
		if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
		e.preventDefault();
		tip.hidden = true;
		keys[e.key](e);
	});
	let typing;
	$("search").addEventListener("input", () => {
		clearTimeout(typing);
		typing = setTimeout(() => {
			search($("search").value);
			history.replaceState(null, "", S.query ? "#q=" + encodeURIComponent(S.query) : "#");
		}, 120);
	});
	for (const event of ["focus", "blur"]) $("search").addEventListener(event, () => $("hint").hidden = event === "blur");
	$("search").addEventListener("keydown", e => {
		if (e.key !== "Enter" || !S.rows.length) return;
		look(S.rows[0]);
	});
	$("run").addEventListener("change", () => {
		chooseRun(Number($("run").value));
		if (S.query) search(S.query, true);
	});
	addEventListener("hashchange", follow);
	new ResizeObserver(draw).observe(lanes);
};

try {
	await start();
	if (document.body.dataset.live) live(document.body.dataset.live);
	document.documentElement.dataset.ready = Math.round(performance.now());
} catch (e) {
	trouble("The timeline and the search do not work in this browser: " + e.message);
	throw e;
}
