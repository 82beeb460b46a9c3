// The search page: two rankers side by side, and why A is above B. Text only ever enters as text, never as HTML.

const SIDES = ["left", "right"];
const STEP = 10;
const SHOWN = 6; // contributions listed
const by = (id) => document.getElementById(id);
const state = { q: "", left: "", right: "", k: STEP, chosen: [] };
let known = null; // what /version says
let results = { left: [], right: [] };
let asking = null;
let explaining = null;

function make(name, given = {}, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (key === "class") element.className = value;
    else element.setAttribute(key, value);
  }
  element.append(...inside);
  return element;
}

async function ask(path, given, signal) {
  let response;
  try {
    response = await fetch(`${path}?${new URLSearchParams(given)}`, { signal });
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
  if (!response.ok) throw new Error(sentence(told.error));
  return told;
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
const signed = (value) => `${value < 0 ? "−" : "+"}${short(Math.abs(value))}`;
const digits = (value) => String(Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(3)));
const short = (value) => (typeof value === "number" ? digits(value).replace("-", "−") : (value ?? "missing"));
const score = (value) => (Math.abs(value) >= 1000 ? short(value) : value.toPrecision(3).replace("-", "−"));
const sidesShown = () => (state.right ? SIDES : ["left"]);

// State and address

function readAddress() {
  const given = new URLSearchParams(location.search);
  const names = known.rankers.map((one) => one.name);
  const pick = (name, otherwise) => (names.includes(name) ? name : otherwise);
  state.q = given.get("q") ?? "";
  state.left = pick(given.get("left"), names[0]);
  const right = given.get("right");
  const others = known.rankers.filter((one) => one.name !== state.left);
  const usual = others.find((one) => one.kind === "function") ?? others[0];
  state.right = right === "" ? "" : pick(right, usual?.name ?? "");
  const k = Number(given.get("k"));
  state.k = Number.isInteger(k) && k > 0 ? Math.min(k, 1000) : STEP;
  state.chosen = ["a", "b"].map((name) => given.get(name)).filter(Boolean);
}

function writeAddress(replace) {
  const given = new URLSearchParams();
  if (state.q) given.set("q", state.q);
  given.set("left", state.left);
  given.set("right", state.right);
  if (state.k !== STEP) given.set("k", state.k);
  state.chosen.forEach((id, at) => given.set("ab"[at], id));
  history[replace ? "replaceState" : "pushState"](null, "", `?${given}`);
}

function showChoices() {
  by("q").value = state.q;
  by("left").value = state.left;
  by("right").value = state.right;
}

// Searching

function say(text, failed) {
  const status = by("status");
  status.textContent = text;
  status.classList.toggle("error", Boolean(failed));
  if (failed) {
    const again = make("button", { type: "button" }, "Try again");
    again.addEventListener("click", search);
    status.append(again);
  }
}

async function search() {
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  document.title = state.q ? `${state.q} – Rankwright` : "Rankwright";
  by("start").hidden = Boolean(state.q);
  if (!state.q) {
    showLists({ left: [], right: [] });
    say("");
    return;
  }
  by("lists").setAttribute("aria-busy", "true");
  const slow = setTimeout(() => say("Searching …"), 300);
  try {
    const fields = known.index.numbers.join(",");
    const told = await Promise.all(
      sidesShown().map((side) => ask("search", { q: state.q, k: state.k, ranker: state[side], fields }, signal)),
    );
    clearTimeout(slow);
    showLists({ left: told[0].results, right: told[1]?.results ?? [] });
    say(summary(told));
  } catch (error) {
    clearTimeout(slow);
    if (error.name === "AbortError") return;
    showLists({ left: [], right: [] });
    say(error.message, true);
  } finally {
    if (!signal.aborted) by("lists").removeAttribute("aria-busy");
  }
}

function summary(told) {
  const { unknown, dropped } = told[0];
  const words = unknown.length ? `No document contains ${unknown.join(" or ")}.` : "";
  if (!told.some((one) => one.results.length)) {
    if (words) return `Nothing found. ${words}`;
    return dropped.length ? `Nothing found: ${dropped.join(", ")} are too common to search for.` : "Nothing found.";
  }
  if (told.length < 2) return words;
  const right = new Set(results.right.map((one) => one.id));
  const shared = results.left.filter((one) => right.has(one.id)).length;
  const same = results.left.every((one, at) => results.right[at]?.id === one.id);
  const many = `Both lists have the same ${shared} documents`;
  if (shared === results.left.length && shared === results.right.length) {
    return `${many}, in ${same ? "the same" : "another"} order. ${words}`;
  }
  return `${shared} of ${results.left.length} documents are in both lists. ${words}`;
}

// Lists

function showLists(found) {
  results = found;
  const any = found.left.length + found.right.length > 0;
  const two = Boolean(state.right);
  by("lists").hidden = !any;
  by("lists").classList.toggle("one", !two);
  by("lists").dataset.shown ||= "left";
  if (!two) by("lists").dataset.shown = "left";
  by("tabs").hidden = !any || !two;
  const rows = Math.max(found.left.length, found.right.length);
  const most = Math.max(rows, 1);
  for (const side of SIDES) {
    const section = document.querySelector(`section[data-side=${side}]`);
    section.hidden = side === "right" && !two;
    section.style.gridRow = `1 / span ${most + 1}`;
    const list = section.querySelector("ol");
    list.style.gridRow = `2 / span ${most}`;
    const none = found[side].length ? "" : " finds nothing";
    section.querySelector("h2").replaceChildren(state[side], make("span", {}, none));
    list.setAttribute("aria-label", `Results of ${state[side]}`);
    list.replaceChildren(...found[side].map((one) => card(one, side)));
    list.firstElementChild?.setAttribute("tabindex", "0");
    const tab = by("tabs").querySelector(`[data-side=${side}]`);
    tab.textContent = state[side];
    tab.setAttribute("aria-pressed", String(by("lists").dataset.shown === side));
  }
  by("more").hidden = rows < state.k || state.k >= 1000;
  showChosen();
  drawMoves();
}

function card(one, side) {
  const moved = movement(one, side);
  const title = known.index.fields.includes("title") && one.title;
  const id = make("span", title ? { class: "id" } : {}, one.id);
  const name = make("span", { class: "name" }, ...(title ? [one.title, " ", id] : [id]));
  const place = make("span", { class: "rank" }, String(one.rank));
  const facts = make("span", { class: `moved ${moved.kind}`, title: moved.title }, make("b", {}, moved.text), score(one.score));
  const item = make("li", { role: "option", tabindex: "-1", "aria-selected": "false" }, place, name, facts);
  item.dataset.id = one.id;
  item.dataset.side = side;
  if (moved.title) item.setAttribute("aria-description", moved.title);
  if (one.snippet) item.append(make("p", { class: "snippet" }, ...marked(one.snippet, one.marks)));
  const numbers = Object.entries(one.fields).filter(([, value]) => value !== null);
  if (numbers.length) {
    item.append(make("p", { class: "numbers" }, numbers.map(([key, value]) => `${key} ${short(value)}`).join(" · ")));
  }
  return item;
}

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

// What becomes of a result from left to right.
function movement(one, side) {
  if (!state.right) return { kind: "", text: "", title: "" };
  const other = side === "left" ? "right" : "left";
  const there = results[other].find((two) => two.id === one.id)?.rank;
  const whose = state[other];
  if (!there) {
    const title = `not among the first ${results[other].length} of ${whose}`;
    return side === "left" ? { kind: "out", text: "out", title } : { kind: "new", text: "new", title };
  }
  const by = side === "left" ? one.rank - there : there - one.rank;
  const title = `rank ${there} in ${whose}`;
  if (!by) return { kind: "even", text: "=", title };
  return { kind: by > 0 ? "up" : "down", text: `${by > 0 ? "▲" : "▼"} ${Math.abs(by)}`, title };
}

function cards(id) {
  return [...document.querySelectorAll("#lists li")].filter((item) => id === undefined || item.dataset.id === id);
}

function drawMoves() {
  const svg = by("moves");
  svg.replaceChildren();
  if (!state.right || by("lists").hidden || getComputedStyle(svg).display === "none") return;
  const box = by("lists").getBoundingClientRect();
  for (const item of document.querySelectorAll("section[data-side=left] li")) {
    const other = cards(item.dataset.id).find((one) => one.dataset.side === "right");
    if (!other) continue;
    const [a, b] = [item.getBoundingClientRect(), other.getBoundingClientRect()];
    const [x, y] = [a.right - box.left + 3, a.top - box.top + 22];
    const [u, v] = [b.left - box.left - 3, b.top - box.top + 22];
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", `M${x} ${y}C${(x + u) / 2} ${y} ${(x + u) / 2} ${v} ${u} ${v}`);
    path.setAttribute("class", item.querySelector(".moved").classList[1]);
    path.dataset.id = item.dataset.id;
    svg.append(path);
  }
}

function highlight(id) {
  for (const item of cards()) item.classList.toggle("same", item.dataset.id === id && cards(id).length > 1);
  for (const path of by("moves").children) path.classList.toggle("same", path.dataset.id === id);
}

// Choosing two results

function choose(id) {
  const at = state.chosen.indexOf(id);
  if (at >= 0) state.chosen.splice(at, 1);
  else state.chosen = [...state.chosen.slice(0, 1), id];
  writeAddress(true);
  showChosen();
}

function showChosen() {
  for (const item of cards()) {
    const at = state.chosen.indexOf(item.dataset.id);
    item.setAttribute("aria-selected", String(at >= 0));
    item.querySelector(".letter")?.remove();
    if (at >= 0) item.querySelector(".rank").append(make("span", { class: "letter" }, "AB"[at]));
  }
  const [a, b] = state.chosen;
  by("why").hidden = !a || !state.q || by("lists").hidden;
  if (by("why").hidden) return;
  by("alone").hidden = Boolean(b);
  by("swap").hidden = !b;
  by("reasons").replaceChildren();
  if (b) explain(a, b);
  else by("why-title").textContent = `A is ${a}. Choose another result to compare it with.`;
}

async function explain(a, b) {
  explaining?.abort();
  explaining = new AbortController();
  const { signal } = explaining;
  by("why-title").textContent = b ? `${a} (A) and ${b} (B)` : `What sets ${a} (A) apart from the other documents found`;
  const told = await Promise.all(
    sidesShown().map((side) =>
      ask("explain", { q: state.q, doc: a, ranker: state[side], ...(b ? { against: b } : {}) }, signal).catch((error) => ({
        ranker: state[side],
        error: error.message,
      })),
    ),
  );
  if (signal.aborted) return;
  if (b) by("why-title").textContent = question(a, b, told);
  by("reasons").replaceChildren(...told.map((one) => (one.error ? failure(one.ranker, one.error) : reasons(one))));
}

function question(a, b, told) {
  const above = told.filter((one) => !one.error).map((one) => one.a.rank < one.b.rank);
  if (above.includes(true) && above.includes(false)) return `${a} (A) and ${b} (B): the rankers disagree`;
  return above.length ? `Why ${a} (A) is ${above[0] ? "above" : "below"} ${b} (B)` : `${a} (A) and ${b} (B)`;
}

function failure(name, message) {
  return make("section", {}, make("h3", {}, name), make("p", {}, message));
}

function reasons(told) {
  const terms = told.contributions.filter((one) => one.contribution);
  const rest = terms.slice(SHOWN);
  const most = Math.max(...terms.map((one) => Math.abs(one.contribution)), 1e-300);
  const other = told.b ? "B" : "mean";
  const rows = terms.slice(0, SHOWN).map((one) => {
    const values = `A ${short(one.a)}, ${other} ${short(told.b ? one.b : one.mean)}`;
    return bar([one.words, make("small", {}, values)], one.contribution, most);
  });
  if (rest.length) {
    const sum = rest.reduce((total, one) => total + one.contribution, 0);
    rows.push(bar([`${rest.length} other${rest.length > 1 ? "s" : ""}`], sum, most));
  }
  rows.push(bar([told.b ? "score of A less that of B" : "score of A less the mean"], told.difference, null));
  const places = `A is #${told.a.rank}${told.b ? `, B is #${told.b.rank}` : ""} of ${told.documents.toLocaleString("en")}`;
  return make(
    "section",
    {},
    make("h3", {}, `${told.ranker}: ${places}`),
    make("p", {}, told.reason),
    make("div", { class: "bars" }, ...rows),
  );
}

function bar(words, value, most) {
  const fill = make("i", value < 0 ? { class: "against" } : {});
  if (most) fill.style.width = `${(50 * Math.min(Math.abs(value) / most, 1)).toFixed(2)}%`;
  const drawn = make("span", most ? { class: "bar" } : {}, ...(most ? [fill] : []));
  const total = most ? "" : " total";
  return make(
    "div",
    {},
    make("span", { class: `words${total}` }, ...words),
    drawn,
    make("span", { class: `value${total}` }, signed(value)),
  );
}

// Keyboard and mouse

function focusOn(item) {
  if (!item) return;
  for (const other of item.parentElement.children) other.tabIndex = other === item ? 0 : -1;
  item.focus();
  item.scrollIntoView({ block: "nearest" });
  const covered = by("why").hidden ? 0 : by("why").offsetHeight;
  const below = item.getBoundingClientRect().bottom - (innerHeight - covered);
  if (below > 0) scrollBy(0, below + 8);
}

function showSide(side) {
  by("lists").dataset.shown = side;
  for (const tab of by("tabs").children) tab.setAttribute("aria-pressed", String(tab.dataset.side === side));
}

function inLists(event, item) {
  const all = [...item.parentElement.children];
  const at = all.indexOf(item);
  const other = item.dataset.side === "left" ? "right" : "left";
  const across = () => {
    showSide(other);
    return [...document.querySelectorAll(`section[data-side=${other}] li`)][at];
  };
  const moves = {
    ArrowDown: () => all[at + 1],
    j: () => all[at + 1],
    ArrowUp: () => all[at - 1],
    k: () => all[at - 1],
    Home: () => all[0],
    End: () => all.at(-1),
    ArrowLeft: () => (other === "left" && state.right ? across() : null),
    ArrowRight: () => (other === "right" && state.right ? across() : null),
  };
  if (event.key === "Enter" || event.key === " ") choose(item.dataset.id);
  else if (event.key in moves) focusOn(moves[event.key]());
  else return;
  event.preventDefault();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target instanceof Element ? event.target : document.body;
  const item = target.closest("#lists li");
  if (event.key === "Escape" && state.chosen.length) {
    close();
    return;
  }
  if (item) inLists(event, item);
  if (event.defaultPrevented || target.closest("input, select, textarea")) {
    if (target.id === "q" && event.key === "ArrowDown") {
      event.preventDefault();
      focusOn(firstShown());
    }
    return;
  }
  if (event.key === "/") {
    event.preventDefault();
    by("q").focus();
    by("q").select();
  } else if ((event.key === "j" || event.key === "ArrowDown") && !item) {
    const first = firstShown();
    if (first) event.preventDefault();
    focusOn(first);
  }
});

function firstShown() {
  return document.querySelector(`section[data-side=${by("lists").dataset.shown || "left"}] li`);
}

function close() {
  const last = cards(state.chosen.at(-1)).find((item) => item.dataset.side === by("lists").dataset.shown);
  const within = by("why").contains(document.activeElement);
  state.chosen = [];
  writeAddress(true);
  showChosen();
  if (within) focusOn(last);
}

by("lists").addEventListener("click", (event) => {
  const item = event.target.closest("li");
  if (!item || String(getSelection())) return; // text is being selected
  focusOn(item);
  choose(item.dataset.id);
});
for (const kind of ["mouseover", "focusin"]) {
  by("lists").addEventListener(kind, (event) => highlight(event.target.closest("li")?.dataset.id));
}
for (const kind of ["mouseleave", "focusout"]) by("lists").addEventListener(kind, () => highlight());
by("tabs").addEventListener("click", (event) => {
  if (event.target.dataset.side) showSide(event.target.dataset.side);
});
by("close").addEventListener("click", close);
by("alone").addEventListener("click", () => explain(state.chosen[0]));
by("swap").addEventListener("click", () => {
  state.chosen.reverse();
  writeAddress(true);
  showChosen();
});
by("more").addEventListener("click", () => {
  state.k = Math.min(state.k + STEP, 1000);
  writeAddress(true);
  search();
});
by("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  state.q = by("q").value.trim();
  state.k = STEP;
  state.chosen = [];
  writeAddress();
  search();
});
for (const side of SIDES) {
  by(side).addEventListener("change", () => {
    state[side] = by(side).value;
    writeAddress();
    search();
  });
}
by("exchange").addEventListener("click", () => {
  if (!state.right) return;
  [state.left, state.right] = [state.right, state.left];
  showChoices();
  writeAddress();
  search();
});
addEventListener("popstate", () => {
  readAddress();
  showChoices();
  search();
});
addEventListener("resize", drawMoves);

const theme = by("theme");
theme.addEventListener("click", () => {
  const order = ["auto", "light", "dark"];
  const next = order[(order.indexOf(document.documentElement.dataset.theme || "auto") + 1) % 3];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  theme.textContent = `Theme: ${next}`;
});

async function begin() {
  try {
    known = await ask("version", {});
  } catch (error) {
    say(error.message, true);
    by("status").querySelector("button").addEventListener("click", begin, { once: true });
    return;
  }
  const names = known.rankers.map((one) => one.name);
  if (!known.index) {
    by("facts").textContent = `Version ${known.version}, no index`;
    say(`This service has no index to search. It ranks features, by POST /rank, with: ${names.join(", ")}.`);
    return;
  }
  by("facts").textContent = `${known.index.name}, ${known.index.documents.toLocaleString("en")} documents`;
  for (const side of SIDES) by(side).replaceChildren(...names.map((name) => make("option", { value: name }, name)));
  by("right").append(make("option", { value: "" }, "none"));
  by("ask").hidden = false;
  readAddress();
  showChoices();
  if (!state.q) by("q").focus();
  search();
}
begin();
