// The live page: it receives the events of the run and sends the requests of the user.

const limit = 150_000; // attempts; with more, the page is loaded again with a sample of them
const L = {url: "", run: 0, known: new Map(), names: new Map(), lanes: new Map(), last: [], skew: 0, over: false, stale: false, changed: false, ticks: 0, log: null, told: Infinity, events: null, dirty: false, fresh: 0, toggled: new Set(), rows: new Map()};
const isSame = (task, attempt) => task + " " + attempt;
const millis = time => Date.parse(time) - D.base;
const present = () => Date.now() + L.skew - D.base;

const live = url => {
	L.url = url;
	L.run = Math.max(0, D.runs.length - 1);
	D.runs[L.run] ??= {name: "", start: present(), end: present()};
	const until = now;
	now = i => A.run[i] === L.run ? Math.max(A.start[i], L.over || present()) : until(i);
	A.task.forEach((task, i) => {
		if (A.run[i] !== L.run) return;
		L.known.set(isSame(task, A.attempt[i]), i);
		L.last[A.lane[i]] = i;
	});
	D.names.forEach((name, n) => L.names.set(name, n));
	D.lanes.forEach(([host, worker], n) => laneIDs(host, worker).push(n));
	steer = tools;
	S.down = true;
	chooseRun(L.run);
	buttons();
	connect();
	document.addEventListener("visibilitychange", connect);
	setInterval(refresh, 1000);
};
// connect opens the stream of events after the last line received. A hidden page has no stream, because a
// browser allows only a few connections to one server for all its tabs.
const connect = () => {
	L.events?.close();
	L.told = Infinity;
	if (document.hidden || L.over) return;
	L.events = new EventSource(L.url + "events");
	listenTo(L.events);
};
const listenTo = events => {
	events.addEventListener("open", () => complain(""));
	events.addEventListener("error", () => {
		complain(L.over ? "" : "The connection is lost; trying again.");
		if (events.readyState === EventSource.CLOSED) setTimeout(connect, 5000); // the browser has given up
	});
	events.addEventListener("reload", again);
	events.addEventListener("lines", e => {
		JSON.parse(e.data).forEach(line);
		if (e.lastEventId) L.url = L.url.replace(/\d+\/$/, e.lastEventId + "/");
	});
	events.addEventListener("queue", () => $("queue").hidden = L.over);
	events.addEventListener("status", e => {
		status(JSON.parse(e.data));
		L.told = performance.now();
	});
	events.addEventListener("over", e => {
		events.close();
		L.over = present();
		showState(JSON.parse(e.data || "null") || "ended");
		complain("");
		say("The run is over. This page stays as it is.");
		$("sure").close();
		running([]);
		for (const tile of $("now").children) tile.hidden = ["Running", "Waiting", "Speed", "Left"].includes(tile.firstChild.textContent);
		for (const id of ["control", "waits", "by-key", "queue", "run-now"]) $(id).hidden = id !== "run-now" || $("log").hidden;
		refresh();
		freshen();
	});
};

// again reloads the page, at most once in five seconds.
const again = () => setTimeout(() => location.reload(), Math.max(0, 5000 - performance.now()));

const showWorkers = n => $("workers").textContent = n + (n === 1 ? " worker" : " workers");
const say = text => $("said").textContent = visible(text);
const complain = text => {
	$("error").textContent = visible(text);
	$("error").hidden = !text;
};

const intern = text => {
	if (!L.names.has(text)) L.names.set(text, D.names.push(text) - 1);
	return L.names.get(text);
};
// A worker has several lanes if it runs several attempts at once. A new attempt gets the first free one.
const laneIDs = (host, worker) => {
	const id = worker + " " + host;
	if (!L.lanes.has(id)) L.lanes.set(id, []);
	return L.lanes.get(id);
};
const laneOf = l => {
	const host = bytes(l.host), worker = l.worker ?? 0, ids = laneIDs(host, worker), runs = i => i !== undefined && !A.outcome[i] && A.took[i] < 0;
	const free = ids.find(n => !runs(L.last[n]));
	if (free !== undefined) return free;
	ids.push(D.lanes.push([host, worker]) - 1);
	return ids.at(-1);
};

// attempt returns the index of the attempt that a line is about, and adds it if it is new.
const attempt = l => {
	const id = isSame(l.task, l.attempt ?? 0), start = millis(l.start ?? l.at);
	if (L.known.has(id)) return L.known.get(id);
	const i = A.task.length, ran = l.event === "started" || l.start;
	const before = L.known.get(isSame(l.task, l.attempt - 1));
	const all = {run: L.run, task: l.task, attempt: l.attempt ?? 0, lane: ran ? laneOf(l) : -1, start, took: -1, outcome: 0, final: 0, code: 0,
		waited: before === undefined ? -1 : Math.max(0, start - endOf(before)), key: intern(bytes(l.key)), command: intern(bytes(l.command))};
	for (const column in all) A[column].push(all[column]);
	L.known.set(id, i);
	if (!ran) return i;
	L.last[all.lane] = i;
	enter(i);
	return i;
};
// enter adds a new attempt to the end of its row. If it does not fit there, the rows have to be made again.
const enter = i => {
	const k = T.rows.findIndex(r => r.lane === A.lane[i]), list = T.rows[k]?.list;
	if (T.run !== L.run) return;
	if (!list || list.length && A.start[list.at(-1)] > A.start[i]) return L.stale = true;
	list.push(i);
	rowOf.set(i, k);
};

const line = l => {
	switch (l.event) {
	case "started":
		attempt(l);
		break;
	case "retried": case "finished": {
		const i = attempt(l);
		A.outcome[i] = Math.max(0, D.kinds.findIndex(k => k[0] === l.outcome));
		A.took[i] = (l.duration ?? 0) * 1000;
		A.final[i] = l.event === "finished" ? 1 : 0;
		A.code[i] = l.exit ?? l.signal ?? 0;
		if (l.start) A.start[i] = millis(l.start);
		L.dirty = true;
		break;
	}
	case "blocked": {
		const last = D.blocked.at(-1);
		if (last?.[2] === Infinity) last[2] = millis(l.at);
		if (D.blocked.length > 5000) D.blocked.splice(0, 1000);
		if (l.blocking) D.blocked.push([L.run, millis(l.at), Infinity, visible(l.blocking.text)]);
		break;
	}
	case "resized":
		showWorkers(l.workers);
		break;
	case "draining": case "stopping":
		say(l.event + (l.text ? ": " + l.text : ""));
		break;
	case "notice":
		say(l.text);
		break;
	case "lost":
		complain(l.count === 1 ? "1 event was missed and is not shown." : `${count(l.count)} events were missed and are not shown.`);
	}
	L.changed = true;
};

// freshen fetches the parts that the server renders: failures, charts and tables.
const freshen = async () => {
	if (L.fresh === Infinity) return L.dirty = true; // an answer is on its way; refresh asks again after it
	const began = performance.now();
	[L.dirty, L.fresh] = [false, Infinity];
	try {
		const answer = await fetch(L.url + "parts");
		if (answer.ok) replaceParts(new DOMParser().parseFromString(await answer.text(), "text/html"));
	} catch {
		L.dirty = true; // the stream of events reports a lost connection
	}
	L.fresh = performance.now() + Math.max(2000, 20 * (performance.now() - began));
};
// replaceParts replaces the parts and keeps open what the user has opened. A part with the focus is not
// replaced until the focus leaves it.
const replaceParts = parts => {
	for (const id of ["p-failed", "p-curves", "p-tables"]) {
		const old = $(id), part = parts.getElementById(id);
		if (!part || old.innerHTML === part.innerHTML) continue;
		if (old.contains(document.activeElement)) {
			L.dirty = true;
			continue;
		}
		for (const d of part.querySelectorAll("details[id]")) if (L.toggled.has(d.id)) d.open = $(d.id)?.open ?? d.open;
		const whole = new Set([...old.querySelectorAll("table[data-all]")].map(t => t.parentElement.getAttribute("aria-labelledby")));
		cut(part);
		old.replaceWith(part);
		for (const t of part.querySelectorAll("table.long")) {
			shorten(t);
			if (whole.has(t.parentElement.getAttribute("aria-labelledby"))) t.parentElement.parentElement.querySelector(".all")?.click();
		}
	}
	showFailures();
	offers();
};
// offer adds buttons to a failure that is open.
const offer = f => {
	const [run, task] = f.id.slice(1).split("-").map(Number);
	if (run !== L.run || L.over || f.querySelector(".tools")) return;
	f.append(el("p", {className: "tools"}, button("Output", () => log(task)), button("Retry", () => ask({op: "retry", tasks: [task]}))));
};

const offers = () => document.querySelectorAll(".failure[open]").forEach(offer);

// refresh shows what has changed since the last call.
const refresh = () => {
	if (A.task.length > limit) again();
	if (!L.over && performance.now() - L.told > 10_000) showState("no answer");
	const end = T.end, following = T.to >= end;
	if (L.stale && T.run === L.run) {
		const {from, to} = T;
		layOut(L.run);
		[L.stale, T.from, T.to] = [false, from, to];
	}
	if (T.run === L.run && !L.over) T.end = Math.max(T.end, present());
	if (following && T.from <= T.begin) showAll();
	else if (following) show(T.from + T.end - end, T.to + T.end - end);
	else draw();
	if (L.changed) {
		for (const id of ["timeline", "s-tasks"]) $(id).hidden = !A.task.length;
		legend();
		share();
	}
	if (L.changed && !L.over) $("by-key").hidden &&= !A.key.some(key => key > 0);
	if (L.changed && (A.task.length < 20_000 || ++L.ticks % 5 === 0) && !$("tasks").contains(document.activeElement)) search(S.query, true);
	if (T.picked >= 0 && !A.outcome[T.picked] && !$("detail").contains(document.activeElement)) showDetail(T.picked);
	if (L.dirty && performance.now() > L.fresh) freshen();
	L.changed = false;
};

const showState = state => Object.assign($("state"), {textContent: state, className: "state"}).dataset.state = state;
const speed = rate => {
	const [unit, seconds] = [["s", 1], ["min", 60], ["h", 3600]].find(([, seconds]) => rate * seconds >= 0.1) ?? ["d", 86400];
	return (rate * seconds).toFixed(rate >= 10 ? 0 : 1) + "/" + unit;
};
const status = s => {
	L.skew = Date.parse(s.at) - Date.now();
	const ended = s.done + (s.dropped ?? 0);
	showState(s.state);
	$("pause").textContent = s.state === "paused" ? "Resume" : "Pause";
	showWorkers(s.workers.length);
	if (s.total > 0) Object.assign($("progress"), {max: s.total, value: ended});
	else $("progress").removeAttribute("value");
	const unread = s.total ? s.total - ended - s.running : 0;
	const tiles = {Ended: count(ended) + (s.total ? " of " + count(s.total) : ""), Failed: count(s.failed), Running: count(s.running), Waiting: count(Math.max(s.waiting, unread)),
		Speed: s.rate ? speed(s.rate) : "–",
		...s.retried ? {Retried: count(s.retried)} : {}, Left: s.eta === null ? "–" : span(s.eta * 1000).replace(/(h.*m).*/, "$1"), Elapsed: span(Math.floor(s.elapsed) * 1000)};
	$("now").replaceChildren(...Object.entries(tiles).map(([name, value]) => el("div", {className: name === "Failed" && s.failed ? "fail" : ""}, el("dt", {textContent: name}), el("dd", {textContent: value}))));
	const why = [...s.blocking && s.blocking.by !== "workers" ? [s.blocking] : [], ...s.waits.filter(b => b.by !== "workers")].map(b => visible(b.text)).filter(text => text !== s.state);
	$("waits").replaceChildren(...[...new Set(why)].slice(0, 10).map(text => el("li", {textContent: text})));
	running(s.tasks);
	settle(s);
	noteQueue(s);
};
const mostRunning = 50;
// running updates the list of running tasks. It keeps the rows of tasks that still run, so that their
// buttons keep the focus.
const running = tasks => {
	const shown = tasks.slice(0, mostRunning), body = $("running"), have = new Set(shown.map(t => t.task));
	for (const [task, row] of L.rows) {
		if (have.has(task)) continue;
		row.remove();
		L.rows.delete(task);
	}
	shown.forEach((t, i) => {
		if (!L.rows.has(t.task)) L.rows.set(t.task, runningRow(t));
		const row = L.rows.get(t.task);
		if (body.rows[i] !== row) body.insertBefore(row, body.rows[i] ?? null);
		row.cells[2].textContent = span(Math.floor(t.duration ?? 0) * 1000);
		row.cells[3].textContent = where(bytes(t.host), t.worker);
	});
	$("running").closest(".wide").hidden = !tasks.length;
	$("crowd").textContent = tasks.length > mostRunning ? `and ${count(tasks.length - mostRunning)} more` : tasks.length ? "" : "Nothing runs.";
};
// about describes a task in a line: its note, what tells it from the others, and its command.
const about = t => {
	const apart = bytes(t.tag ?? t.apart), [command, rest] = halves(bytes(t.command));
	return [bytes(t.note) && `[${bytes(t.note)}]`, rest === undefined && apart !== String(t.task) && apart, rest === undefined ? command : "…" + rest].filter(Boolean).join("  ");
};
const runningRow = t => el("tr", {},
	el("td", {className: "n", textContent: t.task}),
	el("th", {scope: "row", className: "text"}, el("span", {textContent: about(t)})),
	el("td", {className: "n"}), el("td", {className: "least where"}),
	el("td", {className: "n"}, el("span", {className: "tools"}, button("Output", () => log(t.task), {ariaLabel: "Output of task " + t.task}),
		button("Cancel", () => cancel(t.task), {className: "danger", ariaLabel: "Cancel task " + t.task}))));
// settle ends attempts that no longer run although no line said so.
const settle = s => {
	const have = new Set(s.tasks.map(t => isSame(t.task, t.attempt ?? 0))), at = millis(s.at);
	for (const [id, i] of L.known) {
		if (A.outcome[i] === 0 && A.took[i] < 0 && A.start[i] < at - 5000 && !have.has(id)) A.took[i] = at - A.start[i];
	}
};

const did = {pause: "Paused", resume: "Resumed", resize: "Changed the number of workers", hold: "Held", release: "Released", move: "Will start next", cancel: "Cancelled", retry: "Tried again", drain: "Draining", stop: "Stopping"};
const send = request => fetch(L.url + "do", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(request)});
// ask sends a request to the run and shows the answer.
const ask = async request => {
	complain("");
	say("");
	try {
		const answer = await send(request);
		const reply = await answer.json().catch(() => ({}));
		if (!answer.ok || reply.error) return complain(bytes(reply.error) || `The run did not do it (${answer.status}).`);
		say(did[request.op] + (request.tasks ? ": task " + request.tasks.join(", ") : reply.tasks ? ": " + tasksOf(reply.tasks.length) : ""));
		changeQueue();
	} catch (e) {
		complain("crew web does not answer: " + e.message);
	}
};
// sure calls then after the user has confirmed a question.
const sure = (question, answer, then) => {
	$("question").textContent = visible(question);
	$("yes").textContent = answer;
	$("yes").onclick = () => {
		$("sure").close();
		then();
	};
	$("no").onclick = () => $("sure").close();
	$("sure").showModal();
};
const cancel = task => sure(`Cancel task ${task}?`, "Cancel the task", () => ask({op: "cancel", tasks: [task]}));
const buttons = () => {
	$("pause").onclick = () => ask({op: $("pause").textContent.toLowerCase()});
	$("fewer").onclick = () => ask({op: "resize", n: -1, relative: true});
	$("more").onclick = () => ask({op: "resize", n: 1, relative: true});
	$("drain").onclick = () => sure("Start no more tasks, and end the run when the running tasks have ended?", "Drain the run", () => ask({op: "drain"}));
	$("stop").onclick = () => sure("Stop the run and all its running tasks?", "Stop the run", () => ask({op: "stop"}));
	$("cancel-key").onclick = () => $("key").value && sure(`Cancel all tasks with the key ${$("key").value}?`, "Cancel the tasks", () => ask({op: "cancel", key: $("key").value}));
	document.addEventListener("toggle", offers, true);
	document.addEventListener("click", e => L.toggled.add(e.target.closest("summary")?.parentElement.id));
	offers();
	$("close").onclick = () => {
		L.log?.abort();
		$("log").hidden = true;
	};
};
const tools = i => {
	if (L.over || A.run[i] !== L.run) return [];
	const task = A.task[i];
	return [button("Output", () => log(task)), A.outcome[i] ? button("Retry", () => ask({op: "retry", tasks: [task]})) :
		button("Cancel", () => cancel(task), {className: "danger"})];
};

// log shows the output of a task and follows it until the task ends.
const mostLog = 1 << 20;
const log = async task => {
	L.log?.abort();
	const mine = L.log = new AbortController(), out = $("output");
	$("log").hidden = false;
	$("h-log").textContent = "Output of task " + task;
	out.textContent = "";
	$("log").scrollIntoView({block: "nearest"});
	out.focus({preventScroll: true});
	try {
		const answer = await fetch(`${L.url}log?task=${task}`, {signal: mine.signal});
		if (!answer.ok) return out.textContent = visible((await answer.text()).trim());
		let rest = "";
		for (const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader(); ;) {
			const {value, done} = await reader.read();
			if (mine.signal.aborted) return;
			const text = (rest + (value ?? "")).replaceAll("\r\n", "\n").replace(/\x1b\[[0-9;:]*m/g, "");
			const cut = done ? -1 : text.search(/(\r|\x1b(\[[0-9;:]*)?)$/);
			rest = cut < 0 ? "" : text.slice(cut);
			const atEnd = out.scrollTop + out.clientHeight > out.scrollHeight - 20;
			out.append((cut < 0 ? text : text.slice(0, cut)).split("\n").map(visible).join("\n"));
			if (out.textContent.length > 2 * mostLog) out.textContent = "…" + out.textContent.slice(-mostLog);
			if (atEnd) out.scrollTop = out.scrollHeight;
			if (done) break;
		}
		if (!out.textContent) out.textContent = "It wrote nothing.";
	} catch (e) {
		if (!mine.signal.aborted) out.append(`\n(${e.message})`);
	}
};
