const $ = id => document.getElementById(id);

// The theme: that of the system until the button is used.
const dark = matchMedia("(prefers-color-scheme: dark)");
const setTheme = dark => {
	document.documentElement.dataset.theme = dark ? "dark" : "light";
	$("theme").textContent = dark ? "Light" : "Dark";
	dispatchEvent(new Event("theme"));
};
const startTheme = () => {
	$("theme").hidden = false;
	$("theme").onclick = () => setTheme(document.documentElement.dataset.theme !== "dark");
	dark.addEventListener("change", () => setTheme(dark.matches));
	setTheme(dark.matches);
};
