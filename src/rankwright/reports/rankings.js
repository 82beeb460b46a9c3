// One query, two rankings: the first documents with their grades, and how they moved from the left to the right.
// data.rankings is {systems: [label, method, side], depth, of, queries: [query, documents, grades, [system, ranks], split]}.

const rankingOf = (data, query) => data.rankings?.queries.find((row) => row[0] === query);
const listOf = (row, system) => row[3].find(([number]) => number === system)?.[1];

// The baseline, or the folder before, on the left; the chosen method on the right.
function usualSides(now) {
  const { systems } = now.data.rankings;
  const of = (method, side) => systems.findIndex(([, at, own]) => now.data.methods[at] === method && own === side);
  return report.before ? [of(now.method, 0), of(now.method, 1)] : [of(report.baseline, 1), of(now.method, 1)];
}

function fillRankings(now) {
  const holder = document.querySelector("[data-rankings]");
  if (!holder) return;
  const found = now.data.rankings;
  holder.hidden = !found;
  if (!found) return;
  const [left, right] = usualSides(now);
  if (!found.systems[state.left]) state.left = Math.max(left, 0);
  if (!found.systems[state.right]) state.right = right < 0 ? found.systems.length - 1 : right;
  if (!rankingOf(now.data, state.query)) state.query = mostDifferent(now);
  const select = (name) => holder.querySelector(`[data-choose=${name}]`);
  const options = found.queries.map(([at]) => {
    const [id, text] = now.data.queries[at];
    return html("option", { value: at }, shortened(text ? `${id}: ${text}` : id, 420));
  });
  select("query").replaceChildren(...options);
  select("query").value = state.query;
  for (const name of ["left", "right"]) {
    select(name).replaceChildren(...found.systems.map(([label], at) => html("option", { value: at }, label)));
    select(name).value = state[name];
  }
  holder.querySelector(".sides").replaceChildren(...sides(now, rankingOf(now.data, state.query)));
  const kept =
    found.queries.length < found.of
      ? ` Kept here: ${found.queries.length} of ${found.of} queries, ${report.before ? "" : "the hardest and "}those on which values differ most.`
      : "";
  holder.querySelector(":scope > .note").textContent =
    `The first ${found.depth} documents with their grades; ?: not judged. ▲ ▼: ranks gained and lost from left to right; new, out: not among the first ` +
    `${found.depth} of the other side.${kept}`;
}

// The query with the largest difference between the two sides, to begin with.
function mostDifferent(now) {
  const apart = ([at]) => {
    const [a, b] = [valueOf(now, state.left, at), valueOf(now, state.right, at)];
    return a === null || b === null ? -1 : Math.abs(a - b);
  };
  return now.data.rankings.queries.reduce((a, b) => (apart(b) > apart(a) ? b : a))[0];
}

function valueOf(now, system, query) {
  const [, method, side] = now.data.rankings.systems[system];
  const values = side === 0 ? now.data.before : now.data.values;
  return values[now.measureAt]?.[method]?.[query] ?? null;
}

function sides(now, row) {
  const [query, , , , split] = row;
  const [id, text] = now.data.queries[query];
  const title = html("p", { class: "asked" }, html("strong", {}, text || `query ${id}`), ` ${text ? id : ""}`);
  if (split) title.append(`, split ${split}`);
  const lists = [state.left, state.right].map((system) => listOf(row, system));
  return [title, html("div", { class: "pair" }, ...lists.map((_, side) => oneSide(now, row, lists, side)))];
}

function oneSide(now, row, lists, side) {
  const system = side ? state.right : state.left;
  const head = html(
    "p",
    { class: "system" },
    html("strong", {}, now.data.rankings.systems[system][0]),
    ` ${now.measure} ${fixed(valueOf(now, system, row[0]))}`,
  );
  if (!lists[side]) return html("div", {}, head, html("p", { class: "note" }, "No ranking of this query."));
  const items = lists[side].map((document, at) => {
    const other = lists[1 - side] ? lists[1 - side].indexOf(document) : -1;
    const parts = [
      gradeMark(row[2][document]),
      html("span", { class: "document" }, row[1][document]),
      lists[1 - side] ? moveMark(other, at, side) : null,
    ];
    return html("li", { "data-document": document }, html("div", {}, ...parts));
  });
  return html("div", {}, head, html("ol", { class: "ranking" }, ...items));
}

function gradeMark(grade) {
  const words = grade === null ? "not judged" : `grade ${shortNumber(grade)}`;
  const kind = grade === null ? "grade unknown" : grade > 0 ? "grade good" : "grade";
  const shown = html("span", { "aria-hidden": "true" }, grade === null ? "?" : shortNumber(grade));
  return html("span", { class: kind, title: words }, shown, html("span", { class: "unseen" }, `${words} `));
}

// How a document moved from the left to the right: said on the right; on the left only that it is gone.
function moveMark(other, at, side) {
  const gain = side ? other - at : 0;
  const [text, words, kind] =
    other < 0
      ? side
        ? ["new", "not among the first on the left", "better"]
        : ["out", "not among the first on the right", "worse"]
      : gain > 0
        ? [`▲ ${gain}`, `${gain} higher than on the left`, "better"]
        : gain < 0
          ? [`▼ ${-gain}`, `${-gain} lower than on the left`, "worse"]
          : ["", "", ""];
  if (!text) return html("span", { class: "move" });
  const spoken = html("span", { class: "unseen" }, ` ${words}`);
  return html("span", { class: `move ${kind}`, title: words }, html("span", { "aria-hidden": "true" }, text), spoken);
}

function openRankings(query) {
  const now = choose();
  if (!rankingOf(now.data, query)) return;
  state.query = query;
  if (!report.before) [state.left, state.right] = usualSides(now);
  fillRankings(now);
  hush();
  const head = document.getElementById("rankings");
  head.scrollIntoView({ block: "start" });
  head.focus({ preventScroll: true });
}

document.addEventListener("pointerover", (event) => {
  const item = event.target instanceof Element ? event.target.closest("li[data-document]") : null;
  for (const one of document.querySelectorAll("li[data-document]"))
    one.classList.toggle("same", item !== null && one.dataset.document === item.dataset.document);
});
