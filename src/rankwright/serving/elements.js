// What the pages share: elements, requests, themes. Text only ever enters as text, never as HTML.

const by = (id) => document.getElementById(id);

function make(name, given = {}, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (key === "class") element.className = value;
    else element.setAttribute(key, value);
  }
  element.append(...inside);
  return element;
}

async function answer(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The service does not answer.");
  }
  let told;
  try {
    told = await response.json();
  } catch {
    throw new Error(`The service answered with status ${response.status}.`);
  }
  if (!response.ok) throw Object.assign(new Error(sentence(told.error)), { status: response.status });
  return told;
}

const ask = (path, given, signal) => answer(`${path}?${new URLSearchParams(given)}`, { signal });
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

// Marks count characters; JavaScript counts halves of some of them.
function marked(text, marks) {
  const letters = Array.from(text);
  const parts = [];
  let end = 0;
  for (const [start, stop] of marks) {
    parts.push(letters.slice(end, start).join(""), make("mark", {}, letters.slice(start, stop).join("")));
    end = stop;
  }
  return [...parts, letters.slice(end).join("")];
}

const theme = by("theme");
theme.addEventListener("click", () => {
  const order = ["auto", "light", "dark"];
  const next = order[(order.indexOf(document.documentElement.dataset.theme || "auto") + 1) % 3];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  theme.textContent = `Theme: ${next}`;
});
