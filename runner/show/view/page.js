// The data of the page, with its attempts in columns, and helpers that all parts use.

const el = (tag, props, ...kids) => {
	const e = Object.assign(document.createElement(tag), props);
	e.append(...kids);
	return e;
};
const button = (text, onclick, props) => el("button", {type: "button", textContent: text, onclick, ...props});
const trouble = text => {
	$("trouble").textContent = text;
	$("trouble").hidden = false;
};

// visible escapes unprintable characters, in the same way as the server does in the texts of the page.
const visible = text => String(text).replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} \t]/gu, c => {
	const n = c.codePointAt(0);
	return n < 256 ? "\\x" + n.toString(16).padStart(2, "0") : n < 65536 ? "\\u" + n.toString(16).padStart(4, "0") : "\\U" + n.toString(16).padStart(8, "0");
});
// bytes decodes bytes in JSON: a string or, if they are not UTF-8, an object with base64.
const bytes = (b, most = 1000) => {
	const text = b?.base64 ? atob(b.base64) : b ?? "";
	return visible(text.length > most ? text.slice(0, most) + "…" : text);
};

// span formats a duration with three digits, or in whole seconds, like Go's Duration.String.
const span = ms => {
	if (ms <= 0) return "0s";
	if (ms < 1) return Math.round(ms * 10) * 100 + "µs";
	if (ms < 99.95) return Number(ms.toFixed(1)) + "ms";
	if (ms < 999.5) return ms.toFixed(0) + "ms";
	if (ms < 59_950) return Number((ms / 1000).toFixed(ms < 9995 ? 2 : 1)) + "s";
	const s = Math.round(ms / 1000), m = Math.floor(s / 60);
	return (m < 60 ? "" : Math.floor(m / 60) + "h") + m % 60 + "m" + s % 60 + "s";
};
const count = n => n.toLocaleString("en");
const tasksOf = n => n === 1 ? "1 task" : count(n) + " tasks";

// The attempts: each column has a value per attempt. Times are in milliseconds since D.base.
let D;
const A = {};
const read = async () => {
	const text = $("data").textContent;
	const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), c => c.charCodeAt(0));
	D = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
	const names = ["task", "start", "command", "run", "attempt", "lane", "outcome", "final", "code", "key", "took", "waited"];
	for (const [i, name] of names.entries()) A[name] = D.columns[i] ?? [];
	delete D.columns;
	for (const column of [A.task, A.start, A.command])
		for (let i = 1; i < column.length; i++) column[i] += column[i - 1];
	for (const column of [A.start, A.took, A.waited])
		for (let i = 0; i < column.length; i++) column[i] = column[i] === -1 && column !== A.start ? -1 : column[i] / 10;
	const after = time => Date.parse(time) - D.base;
	D.runs = (D.runs ?? []).map(r => ({name: (r.Start > "0002" ? day(after(r.Start)) + " · " : "") + visible(r.Source), start: after(r.Start), end: after(r.End)}));
	D.lanes = (D.lanes ?? []).map(l => [visible(l.Host), l.Worker]);
	D.blocked = (D.blocked ?? []).map(b => [b.Run, after(b.From), after(b.To), visible(b.Text)]);
};

// now is where running attempts end in the timeline: in a file, at the last event of the run.
let now = i => Math.max(D.runs[A.run[i]]?.end ?? 0, A.start[i]);
const endOf = i => A.took[i] >= 0 ? A.start[i] + A.took[i] : A.lane[i] < 0 ? A.start[i] : now(i);
const kindOf = i => D.kinds[A.outcome[i]][1];
const outcomeOf = i => {
	const name = A.outcome[i] ? D.kinds[A.outcome[i]][0] : document.body.dataset.live && A.took[i] < 0 ? "running" : "end unknown";
	return name === "exit" || name === "signal" ? name + " " + A.code[i] : name;
};
const where = (host, worker) => worker ? "worker " + worker + (host && ` (${host})`) : host;
const placeOf = i => {
	const lane = D.lanes[A.lane[i]];
	return !lane ? "" : where(...lane);
};
const day = (ms, from = 0, to = 19) => new Date(D.base + ms + D.zone * 60000).toISOString().replace("T", " ").slice(from, to);
const days = () => new Set([D.runs[0], D.runs.at(-1)].flatMap(r => [r?.start, r?.end]).filter(ms => Number.isFinite(ms) && D.base + ms > 0).map(ms => day(ms, 0, 10))).size;
// clock formats a time, with its date if the page has several days.
const clock = ms => Number.isFinite(ms) ? day(ms, days() > 1 ? 0 : 11, 23) : "";
const neverRan = i => A.lane[i] < 0 && A.took[i] <= 0;

// whyWaited says what kept an attempt from starting, or "" if that is unknown.
const whyWaited = i => {
	if (A.waited[i] <= 0) return "";
	const from = A.start[i] - A.waited[i], to = A.start[i];
	let why = A.attempt[i] > 1 ? "after the previous attempt" : "", most = 0;
	for (const [run, begin, end, text] of D.blocked) {
		const both = run === A.run[i] ? Math.min(end, to) - Math.max(begin, from) : 0;
		if (both > most) [most, why] = [both, text];
	}
	return why;
};

// describe returns the facts of an attempt as pairs of name and text.
const describe = i => {
	const facts = [["Task", A.task[i] + (A.attempt[i] > 1 ? ", attempt " + A.attempt[i] : "")], ["Ended", outcomeOf(i)]];
	const add = (name, value) => value && facts.push([name, value]);
	if (!A.outcome[i]) facts.pop();
	add("Command", D.names[A.command[i]]);
	add("Key", D.names[A.key[i]]);
	add("Where", placeOf(i));
	if (!neverRan(i)) {
		add("Started", clock(A.start[i]));
		add(A.outcome[i] ? "Took" : outcomeOf(i) === "running" ? "Runs for" : "Ended", A.took[i] >= 0 ? span(A.took[i]) : outcomeOf(i) === "running" ? span(endOf(i) - A.start[i]) : "unknown");
		if (A.waited[i] >= 0) add("Waited", [span(A.waited[i]), whyWaited(i)].filter(Boolean).join(", "));
	}
	return facts;
};

// The beginning that all commands share, up to a word or a directory. The style sheet hides it in lists, so that they
// show where commands differ.
let shared = "";
const share = () => {
	const names = [...new Set(A.command)].map(n => D.names[n]);
	if (shared && names.every(name => name.startsWith(shared))) return;
	let all = names[0] ?? "";
	for (const name of names) {
		let n = 0;
		while (n < all.length && all[n] === name[n]) n++;
		all = all.slice(0, n);
	}
	all = all.replace(/[^\s/]*$/, "");
	shared = names.length < 2 || all.length < 16 ? "" : all;
	$("shared").hidden = !shared;
	$("shared").lastElementChild.textContent = shared;
	cut(document);
};
// cut marks the shared beginning of the commands in a part of the page.
const cut = part => {
	for (const e of part.querySelectorAll(".cut")) e.replaceChildren(...halves(e.textContent));
};
const halves = text => shared && text.startsWith(shared) ? [el("span", {className: "shared", textContent: shared}), text.slice(shared.length)] : [text];

// shorten hides all but the first rows of a long table behind a button.
const shorten = (table, most = 12) => {
	const rows = [...table.tBodies[0].rows].slice(most);
	if (rows.length < 4) return;
	for (const r of rows) r.classList.add("later");
	const all = button(`Show all ${count(rows.length + most)}`, () => {
		table.dataset.all = 1;
		for (const r of rows) r.classList.remove("later");
		all.remove();
		rows[0].querySelector("a")?.focus();
	}, {className: "all"});
	table.parentElement.after(all);
};

let mostShown = document.body.dataset.live ? 4 : 10; // a live page also has to show what runs
const showFailures = () => {
	if (!$("failed")) return;
	const all = [...$("failed").children], left = all.length - mostShown;
	all.forEach((f, i) => f.classList.toggle("later", i >= mostShown && !f.open));
	$("failures").hidden = left <= 0;
	for (const link of document.querySelectorAll('a[href="#h-failed"]')) link.parentElement.hidden = !all.length;
	$("failures").replaceChildren(button(left > 50 ? `Show 50 of ${count(left)} more` : `Show ${left} more`, () => {
		mostShown += 50;
		showFailures();
	}));
	all.slice(0, mostShown).forEach(showEnd);
};
// showEnd scrolls to the end of the output, where the reason for the failure usually is.
const showEnd = f => {
	const output = f.querySelector("pre");
	if (output) output.scrollTop = output.scrollHeight;
};
// openFailure opens the failure of a task, and returns false if the page does not have it.
const openFailure = (run, task) => {
	const f = $(`f${run}-${task}`);
	if (!f) return false;
	f.classList.remove("later");
	f.open = true;
	f.scrollIntoView({block: "start"});
	f.querySelector("summary").focus({preventScroll: true});
	return true;
};
const hasFailure = (run, task) => $(`f${run}-${task}`);
