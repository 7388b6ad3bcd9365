// The list of runs: while it is visible, it is fetched again every two seconds.

const refresh = async () => {
	let trouble = "";
	try {
		const answer = await fetch("");
		if (!answer.ok) throw new Error(answer.status);
		const old = $("runs"), list = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("runs");
		const focused = old.contains(document.activeElement) && document.activeElement.getAttribute("href");
		if (list.innerHTML !== old.innerHTML) old.replaceWith(list);
		if (focused) list.querySelector(`a[href="${focused}"]`)?.focus();
	} catch {
		trouble = "crew web does not answer: this list is old.";
	}
	if ($("error").textContent !== trouble) $("error").textContent = trouble;
	$("error").hidden = !trouble;
};
const loop = async () => {
	if (!document.hidden) await refresh();
	setTimeout(loop, 2000);
};
startTheme();
setTimeout(loop, 2000);
document.documentElement.dataset.ready = Math.round(performance.now());
