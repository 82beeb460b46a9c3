// Keyboard, mouse, and the beginning.

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
  state.k = Math.min(state.k + STEP, known.limits.k);
  writeAddress(true);
  search();
});
by("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  state.q = by("q").value.trim();
  state.k = Math.min(STEP, known.limits.k);
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
  by("q").maxLength = known.limits.query;
  by("ask").hidden = false;
  readAddress();
  showChoices();
  if (!state.q) by("q").focus();
  search();
}
begin();
