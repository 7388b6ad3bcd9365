// The search and the list of tasks.

const S = {query: "", rows: [], by: "start", down: false, page: 0};
const pageSize = 25;
const bad = i => ["fail", "slow", "lost"].includes(kindOf(i));

// terms parses a query: words, "several words" and name:value, each negated by a leading -. It returns a
// predicate for each.
const terms = query => [...query.matchAll(/(-?)(?:([a-z]+):)?(?:"([^"]*)"?|(\S+))/gi)].map(([, not, name, quoted, word]) => {
	const value = (quoted ?? word ?? "").toLowerCase(), is = test((name ?? "").toLowerCase(), value);
	return not ? i => !is(i) : is;
});
const test = (name, value) => {
	const number = Number(value);
	switch (name) {
	case "key": return named(A.key, value);
	case "command": return named(A.command, value);
	case "host": return i => (D.lanes[A.lane[i]]?.[0] ?? "").toLowerCase().includes(value);
	case "worker": return i => D.lanes[A.lane[i]]?.[1] === number;
	case "task": return i => A.task[i] === number;
	case "attempt": return i => A.attempt[i] === number;
	case "run": return i => (D.runs[A.run[i]]?.name ?? "").toLowerCase().includes(value);
	case "exit": case "signal": return i => D.kinds[A.outcome[i]][0] === name && A.code[i] === number;
	case "outcome": return value === "running" ? i => !A.outcome[i] : i => A.outcome[i] && D.kinds[A.outcome[i]][0].startsWith(value);
	case "": break;
	default: value = name + ":" + value;
	}
	const command = named(A.command, value), key = named(A.key, value);
	return i => command(i) || key(i) || A.task[i] === number || value === "failed" && bad(i) || value === "retried" && A.attempt[i] > 1;
};
// named returns a predicate on a name, which checks each name only once.
const named = (column, value) => {
	const known = new Map();
	return i => {
		const n = column[i];
		if (!known.has(n)) known.set(n, (D.names[n] ?? "").toLowerCase().includes(value));
		return known.get(n);
	};
};

// search lists the tasks that match a query. A task also matches by an earlier attempt. The list begins with
// its first page unless stay is true.
const search = (query, stay) => {
	S.query = query.trim();
	const tests = terms(S.query), n = A.task.length;
	T.match = tests.length ? new Uint8Array(n) : null;
	S.rows = [];
	const earlier = new Set(), taskOf = i => A.run[i] * 2 ** 40 + A.task[i], isLast = i => A.final[i] || !A.outcome[i];
	let attempts = 0, here = 0, later = 0;
	for (let i = 0; i < n; i++) {
		if (tests.length && !tests.every(t => t(i))) continue;
		attempts++;
		if (A.run[i] === T.run) here++;
		if (T.match) T.match[i] = 1;
		if (isLast(i)) S.rows.push(i);
		else earlier.add(taskOf(i));
	}
	if (tests.length && earlier.size) {
		for (let i = 0; i < n; i++) {
			if (T.match[i] || !isLast(i) || !earlier.has(taskOf(i))) continue;
			S.rows.push(i);
			later++;
		}
	}
	S.page = stay ? Math.min(S.page, Math.floor(Math.max(0, S.rows.length - 1) / pageSize)) : 0;
	sort();
	$("found").textContent = T.match ? `${tasksOf(S.rows.length)} found` + (later ? `, ${count(later)} of them by an earlier attempt` : "") + (attempts && !here ? "; none of them in the run that is shown" : "") : "";
	draw();
};
const values = {task: A => A.task, start: A => A.start, took: A => A.took, waited: A => A.waited};
const sort = () => {
	const column = values[S.by](A), sign = S.down ? -1 : 1;
	S.rows.sort((a, b) => sign * (column[a] - column[b]) || a - b);
	list();
};

// The columns: what they sort by, their names, classes and cells, and whether an attempt has a value.
const columns = [
	["task", "Task", "n", i => button(A.task[i], () => look(i), {className: "link"}), () => true],
	[null, "Outcome", "", i => el("span", {className: "tag " + kindOf(i), textContent: outcomeOf(i)}), () => true],
	[null, "Command", "text", i => halves(D.names[A.command[i]]), () => true],
	[null, "Key", "least key", i => brief(D.names[A.key[i]]), i => A.key[i] > 0],
	[null, "Where", "least where", placeOf, i => placeOf(i) !== ""],
	["start", "Start", "n least", i => neverRan(i) ? "–" : clock(A.start[i]), () => true],
	["took", "Took", "n", i => A.took[i] >= 0 ? span(A.took[i]) : "–", () => true],
	["waited", "Waited", "n least", i => A.waited[i] >= 0 ? span(A.waited[i]) : "–", i => A.waited[i] >= 0],
	[null, "Attempt", "n least", i => String(A.attempt[i] || "–"), i => A.attempt[i] > 1],
];
const brief = (text = "") => text.length > 200 ? text.slice(0, 200) + "…" : text;
const used = new Set(); // names of columns that are not empty
const row = (i, shown) => el("tr", {}, ...shown.map(([, name, className, cell]) => name === "Command" ?
	el("th", {scope: "row", className}, el("span", {className: "cut"}, ...cell(i))) : el("td", {className}, cell(i))));
const heading = ([by, name, className]) => {
	const th = el("th", {scope: "col", className});
	if (!by) {
		th.textContent = name;
		return th;
	}
	th.append(button(name, () => {
		S.down = S.by === by && !S.down;
		S.by = by;
		S.page = 0;
		sort();
		$("tasks").querySelector(`[data-by=${by}]`).focus();
	}));
	th.firstChild.dataset.by = by;
	th.ariaSort = S.by !== by ? "none" : S.down ? "descending" : "ascending";
	return th;
};
const list = () => {
	const begin = S.page * pageSize, rows = S.rows.slice(begin, begin + pageSize), box = $("tasks"), {scrollLeft} = box;
	for (const [, name, , , has] of columns) if (!used.has(name) && S.rows.some(has)) used.add(name);
	const shown = columns.filter(c => used.has(c[1]));
	box.replaceChildren(el("table", {}, el("caption", {className: "spoken", textContent: "Tasks by " + S.by}),
		el("thead", {}, el("tr", {}, ...shown.map(heading))), el("tbody", {}, ...rows.map(i => row(i, shown)))));
	box.scrollLeft = scrollLeft;
	const pages = Math.max(1, Math.ceil(S.rows.length / pageSize));
	$("count").textContent = (pages > 1 ? `${count(begin + 1)} to ${count(begin + rows.length)} of ${count(S.rows.length)}` : tasksOf(rows.length)) + (S.query ? " found" : "");
	$("pages").hidden = pages === 1;
	$("pages").replaceChildren(button("Previous", turn(-1), {disabled: S.page === 0}), el("span", {className: "quiet", textContent: `page ${count(S.page + 1)} of ${count(pages)}`}),
		button("Next", turn(1), {disabled: S.page === pages - 1}));
};
const turn = by => () => {
	S.page += by;
	list();
	$("pages").children[by < 0 ? 0 : 2].focus();
};

// look shows an attempt in the timeline.
const look = i => {
	pick(i);
	$("h-timeline").scrollIntoView({block: "start"});
	canvas.focus({preventScroll: true});
};
