// The queue: the waiting tasks of a run that others feed.

const mostQueued = 200, askEvery = 2000; // tasks; milliseconds
const Q = {asked: -Infinity, timer: 0, changed: true, state: "", waiting: 0, rows: new Map()};

// noteQueue asks for the queue again if a status shows that it has changed.
const noteQueue = s => {
	const waits = s.waits.map(w => [w.by, w.tasks, w.key, w.worker, w.task]);
	const state = JSON.stringify([s.state, s.done, s.dropped, s.running, s.waiting, s.retried, s.queued, s.aside, s.edits, s.workers.length, waits]);
	Q.changed ||= state !== Q.state;
	[Q.state, Q.waiting] = [state, s.waiting];
	showRest();
	askQueue();
};
const changeQueue = () => {
	Q.changed = true;
	askQueue();
};
// askQueue asks for the queue if it has changed, as soon as askEvery has passed since the last time. A
// hidden page asks for nothing.
const askQueue = () => {
	if (!Q.changed || Q.timer || document.hidden || $("queue").hidden) return;
	Q.timer = setTimeout(async () => {
		if (!document.hidden && !$("queue").hidden) await fetchQueue();
		Q.timer = 0;
	}, Math.max(0, Q.asked + askEvery - performance.now()));
};
const fetchQueue = async () => {
	[Q.asked, Q.changed] = [performance.now(), false];
	try {
		const answer = await send({op: "explain", only: "waiting", n: mostQueued});
		if (answer.ok) showQueue((await answer.json()).wheres ?? []);
	} catch {
		Q.changed = true; // the stream of events reports a lost connection
	}
};

// showQueue updates the list. It keeps the rows of tasks that still wait, and the focus. If the task with
// the focus no longer waits, the next task gets the focus.
const showQueue = tasks => {
	const list = $("queued"), have = new Set(tasks.map(t => t.task)), focus = list.contains(document.activeElement) ? document.activeElement : null;
	const at = [...list.children].indexOf(focus?.closest("li")), nth = [...focus?.parentElement.children ?? []].indexOf(focus);
	for (const [task, row] of Q.rows) {
		if (have.has(task)) continue;
		row.remove();
		Q.rows.delete(task);
	}
	tasks.forEach((t, i) => {
		if (!Q.rows.has(t.task)) Q.rows.set(t.task, queuedRow(t));
		const row = Q.rows.get(t.task), held = t.blocking?.by === "hold";
		if (list.children[i] !== row) list.insertBefore(row, list.children[i] ?? null);
		setText(row.querySelector(".why"), waitsFor(t.blocking) + (t.priority ? ` · priority ${t.priority}` : ""));
		const hold = row.querySelector("button");
		setText(hold, held ? "Release" : "Hold");
		hold.ariaLabel = `${hold.textContent} task ${t.task}`;
	});
	showRest();
	if (!focus || document.activeElement === focus) return;
	const next = focus.isConnected ? focus : list.children[Math.min(at, tasks.length - 1)]?.querySelectorAll("button")[nth];
	(next ?? $("h-queue")).focus({preventScroll: true});
};
const setText = (e, text) => {
	if (e.textContent !== text) e.textContent = text;
};
const showRest = () => {
	const shown = Q.rows.size, more = shown < mostQueued ? 0 : Math.max(0, Q.waiting - shown);
	setText($("queue-rest"), more ? `and ${count(more)} more` : Q.waiting || shown ? "" : "Nothing waits. crew ctl add adds tasks.");
};
const queuedRow = t => {
	const hold = button("", () => ask({op: hold.textContent.toLowerCase(), tasks: [t.task]}));
	return el("li", {},
		el("span", {className: "n"}, el("span", {className: "spoken", textContent: "Task "}), String(t.task)),
		el("code", {textContent: about(t)}),
		el("span", {className: "why quiet"}),
		el("span", {className: "tools"}, hold,
			button("Start next", () => ask({op: "move", tasks: [t.task]}), {ariaLabel: `Start next: task ${t.task}`}),
			button("Cancel", () => cancel(t.task), {className: "danger", ariaLabel: "Cancel task " + t.task})));
};

// waitsFor says what a task waits for, in words that stay true while it waits.
const waitsFor = b => {
	switch (b?.by) {
	case undefined: return "";
	case "hold": return "held";
	case "pause": return "until the run is resumed";
	case "time": return "until " + shortTime(b.until);
	case "retry": return "for a retry at " + shortTime(b.until);
	}
	return bytes(b.text).replace(/^1 task( of key .*)? waits (?=for )/, "").replace(/, the next in \S+$/, "");
};
// shortTime formats a time, without the date if that is today.
const shortTime = time => {
	const text = day(millis(time)), today = text.slice(0, 10) === day(present(), 0, 10);
	return text.slice(today ? 11 : 0).replace(/:00$/, "");
};
