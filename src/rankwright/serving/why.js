// Choosing two results, and why A is above B.

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
