// Searching, and the two lists with their moves.

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
    if (!signal.aborted) by("lists").setAttribute("aria-busy", "false");
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
  by("more").hidden = rows < state.k || state.k >= known.limits.k;
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
