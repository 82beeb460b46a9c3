// The judging page: one document at a time. A judgement is on disk when the service answers; only then comes the next.

const GRADES = ["not relevant", "related", "relevant", "perfect"];
const SAID = { skip: "skipped", "cannot tell": "can’t tell" };
let now = null; // what the service said last
let busy = false;

const worded = (value) => (typeof value === "number" ? `${value}, ${GRADES[value]}` : SAID[value]);

function say(text, isError = false) {
  by("status").textContent = text;
  by("status").classList.toggle("error", isError);
}

function setBusy(value) {
  busy = value;
  by("task").setAttribute("aria-busy", String(value));
  document.body.dataset.seen = value ? "" : String(now?.seen ?? "");
  by("undo").disabled = !now?.can_undo;
}

function showEnd() {
  const { progress, decision } = now;
  const decided = Boolean(decision?.better) && progress.done < progress.of;
  const title = decision?.better
    ? `Decided: ${decision.better} is better than ${decision.other} by ${decision.measure}`
    : progress.of
      ? "Everything is judged"
      : "There is nothing to judge";
  const parts = [`${progress.done} of ${progress.of} documents are judged; qrels.txt is up to date.`];
  if (decision && !decision.better) parts.push("The judgements do not tell the two rankers apart.");
  by("end-title").textContent = title;
  by("end-text").textContent = parts.join(" ");
  by("on").hidden = !decided;
}

function show(told) {
  now = told;
  const { progress, query, document: found, decision } = told;
  const skipped = progress.skipped ? `, ${progress.skipped} skipped` : "";
  by("facts").textContent = `${told.judge}: ${progress.done} of ${progress.of} documents${skipped}`;
  by("bar").max = Math.max(progress.of, 1);
  by("bar").value = progress.done;
  by("task").hidden = by("answer").hidden = !found;
  by("end").hidden = Boolean(found);
  closeWhole();
  closeNote();
  if (!found) {
    showEnd();
    by("answer").hidden = !told.can_undo;
    for (const one of [by("grades"), by("note-open"), by("open")]) one.hidden = true;
    for (const one of document.querySelectorAll("[data-do]")) one.hidden = true;
    return;
  }
  for (const one of document.querySelectorAll("#grades, #note-open, #open, [data-do]")) one.hidden = false;
  by("query").textContent = query.text;
  by("query-progress").textContent = `· ${progress.query_done} of its ${progress.query_of} documents done`;
  by("need").textContent = query.need;
  by("need").hidden = !query.need;
  by("title").textContent = found.title || found.id;
  by("doc-id").textContent = found.id;
  by("snippet").replaceChildren(...marked(found.snippet, found.marks));
  const before = [told.was === null ? "" : `So far: ${worded(told.was)}.`, told.note && `Note: ${told.note}`];
  by("said").textContent = before.filter(Boolean).join(" ");
  by("said").hidden = !by("said").textContent;
  for (const button of by("grades").children) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.grade) === told.was));
  }
  if (decision && !decision.better) {
    by("facts").textContent += `; evidence ${decision.capital} of ${decision.needed} needed to tell the rankers apart`;
  }
  scrollTo(0, 0);
}

const post = (path, body) =>
  answer(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

async function change(path, body, done) {
  if (busy) return;
  setBusy(true);
  try {
    show(await post(path, body));
    say(done);
  } catch (error) {
    say(error.message, true);
    if (error.status === 409) show(await ask("next", {}));
  } finally {
    setBusy(false);
  }
}

function act(action, more = {}) {
  if (!now?.document) return;
  const about = { seen: now.seen, query: now.query.id, document: now.document.id };
  const what = action === "grade" ? worded(more.grade) : action === "note" ? "note" : worded(action);
  change("judge", { ...about, action, ...more }, `Kept: ${what} (${now.document.id}).`);
}

function undo() {
  if (!now?.can_undo) return;
  const [query, found] = now.undo;
  change("judge", { seen: now.seen, action: "undo", query, document: found }, `Undone: ${found}.`);
}

// The whole document, and notes

function closeWhole() {
  by("whole").hidden = true;
  by("snippet").hidden = false;
  by("whole").replaceChildren();
  by("open").setAttribute("aria-expanded", "false");
}

async function toggleWhole() {
  if (!now?.document || busy) return;
  if (!by("whole").hidden) {
    closeWhole();
    return;
  }
  const { query, document: found } = now;
  try {
    const told = await ask("document", { query: query.id, document: found.id });
    if (now.document !== found) return; // it came too late
    const parts = told.fields.flatMap((one) => [make("h4", {}, one.name), make("p", {}, ...marked(one.text, one.marks))]);
    by("whole").replaceChildren(...(parts.length ? parts : ["The index holds no texts."]));
    by("whole").hidden = false;
    by("snippet").hidden = true;
    by("open").setAttribute("aria-expanded", "true");
    by("whole").focus({ preventScroll: true });
  } catch (error) {
    say(error.message, true);
  }
}

function closeNote() {
  const inside = by("note-form").contains(document.activeElement);
  by("note-form").hidden = true;
  by("note-open").setAttribute("aria-expanded", "false");
  if (inside) by("note-open").focus();
}

function openNote() {
  if (!now?.document || busy) return;
  by("note").value = now.note;
  by("note-form").hidden = false;
  by("note-open").setAttribute("aria-expanded", "true");
  by("note").focus();
}

const keepNote = () => act("note", { note: by("note").value.trim() });
const goOn = () => by("end").hidden || by("on").hidden || change("go-on", {}, "");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.repeat && event.target !== by("note")) {
    if (event.key === "Enter") event.preventDefault(); // a key that is held judges once
    return;
  }
  if (event.target === by("note")) {
    if (event.key === "Escape") closeNote();
    else if (event.key === "Enter" && !event.shiftKey) keepNote();
    else return;
    event.preventDefault();
    return;
  }
  const keys = {
    c: () => act("cannot tell"),
    s: () => act("skip"),
    u: undo,
    n: openNote,
    o: toggleWhole,
    g: goOn,
    Escape: closeWhole,
  };
  for (const grade of GRADES.keys()) keys[grade] = () => act("grade", { grade });
  if (!(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
});
for (const button of by("grades").children) {
  button.addEventListener("click", () => act("grade", { grade: Number(button.dataset.grade) }));
}
for (const button of document.querySelectorAll("[data-do]")) {
  button.addEventListener("click", () => act(button.dataset.do));
}
by("undo").addEventListener("click", undo);
by("note-open").addEventListener("click", () => (by("note-form").hidden ? openNote() : closeNote()));
by("open").addEventListener("click", toggleWhole);
by("on").addEventListener("click", goOn);
by("note-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepNote();
});

async function begin() {
  try {
    show(await ask("next", {}));
  } catch (error) {
    say(error.message, true);
  }
  setBusy(false);
}
begin();
