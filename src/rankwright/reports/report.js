// The page: choosing, sorting, hovering, saving, and the theme.

const report = JSON.parse(document.getElementById("data").textContent);
const PLOTS = {
  differences: plotDifferences,
  queries: plotQueries,
  criteria: plotCriteria,
  paths: plotPaths,
  health: plotHealth,
  curves: plotCurves,
  time: plotTime,
};
const MEASURED = ["differences", "queries", "curves", "time"]; // the others show all measures or none
const TABLES = { kinds: kindsTable, hardest: hardestTable };
const state = { data: 0, measure: 0, method: "", lines: {}, query: -1, left: -1, right: -1 };
const drawn = new Map();

function choose() {
  const data = report.data[state.data];
  const measure = report.measures[state.measure];
  const others = comparable(data);
  if (!others.includes(state.method)) {
    const rows = data.differences[data.measures.indexOf(measure)] || [];
    const size = (row) => (report.before ? Math.abs(row.difference) : row.difference);
    const best = [...rows].sort((a, b) => size(b) - size(a))[0];
    state.method = best ? best.method : others[0] || "";
  }
  return { data, measure, measureAt: data.measures.indexOf(measure), method: state.method };
}

// The methods that have something to be compared with: all but the baseline, or all, of two folders.
function comparable(data) {
  return report.before ? data.methods : data.methods.filter((method) => method !== report.baseline);
}

// Tables made by the script: text columns first, then numbers.
function makeTable(wanted) {
  const { caption, textColumns = 1 } = wanted;
  const used = wanted.header.map((_, at) => at).filter((at) => wanted.rows.some((row) => row[at] !== ""));
  const header = used.map((at) => wanted.header[at]);
  const rows = wanted.rows.map((row) => used.map((at) => row[at]));
  const isText = (at) => used[at] < textColumns || rows.every((row) => typeof row[at] === "string");
  const queryButton = ({ query, text }) =>
    html("button", { type: "button", class: "open", "data-query": query, title: "show its rankings" }, text);
  const isWhole = header.map((_, at) => rows.every((row) => typeof row[at] !== "number" || Number.isInteger(row[at])));
  const digits = (value, at) =>
    isWhole[at] ? String(value) : value !== 0 && Math.abs(value) < 1e-3 ? shortNumber(value) : fixed(value);
  const heads = header.map((name, at) =>
    html(
      "th",
      { scope: "col", class: isText(at) ? "text" : "number" },
      html("button", { type: "button", class: "sort" }, name),
    ),
  );
  const body = rows.map((row) =>
    html(
      "tr",
      {},
      ...row.map((value, at) => {
        if (typeof value === "number")
          return html("td", { class: isText(at) ? "text" : "number", "data-value": value }, digits(value, at));
        return html(
          at === 0 ? "th" : "td",
          { class: isText(at) ? "text" : "number", scope: at === 0 ? "row" : null },
          value?.query === undefined ? (value === null ? "–" : value) : queryButton(value),
        );
      }),
    ),
  );
  const table = html(
    "table",
    { class: "sortable" },
    caption ? html("caption", {}, html("span", {}, caption)) : null,
    html("thead", {}, html("tr", {}, ...heads)),
    html("tbody", {}, ...body),
  );
  return html(
    "div",
    { class: "wide", tabindex: 0, role: "region", "aria-label": caption || "numbers of the plot" },
    table,
  );
}

function sortBy(button) {
  const head = button.closest("th"),
    table = head.closest("table"),
    at = head.cellIndex;
  const rows = [...table.tBodies[0].rows];
  const key = (row) => row.cells[at].dataset.value;
  const numeric = rows.some((row) => key(row) !== undefined);
  const before = head.getAttribute("aria-sort");
  const down = before ? before === "ascending" : numeric;
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const compare = (a, b) => {
    if (!numeric)
      return (
        a.cells[at].textContent.localeCompare(b.cells[at].textContent, undefined, { numeric: true }) * (down ? -1 : 1)
      );
    const x = key(a),
      y = key(b);
    if (x === undefined || y === undefined) return (x === undefined) - (y === undefined); // cells without a number go last
    return (Number(x) - Number(y)) * (down ? -1 : 1);
  };
  table.tBodies[0].append(...rows.sort(compare));
}

// Hovering: the nearest mark is described in words, for mouse, touch and keyboard.
const tip = document.getElementById("tip");
function tell(canvas, plot, mark) {
  const [first, ...rest] = mark.lines;
  tip.replaceChildren(html("strong", {}, first), ...rest.map((text) => html("div", {}, text)));
  tip.hidden = false;
  mark.point?.();
  const box = plot.svg.getBoundingClientRect(),
    scale = box.width / plot.svg.viewBox.baseVal.width;
  const x = box.left + mark.x * scale,
    y = box.top + mark.y * scale;
  const left = Math.max(
    8,
    Math.min(x - tip.offsetWidth / 2, document.documentElement.clientWidth - tip.offsetWidth - 8),
  );
  const above = y - tip.offsetHeight - 14;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 8 ? above : y + 16}px`;
}
function hush(plot) {
  tip.hidden = true;
  plot?.leave?.();
}
function listen(figure) {
  const canvas = figure.querySelector(".canvas");
  let at = -1;
  const plot = () => drawn.get(figure);
  canvas.addEventListener("pointermove", (event) => {
    const now = plot();
    if (!now || !now.marks.length) return;
    const box = now.svg.getBoundingClientRect(),
      scale = now.svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale,
      y = (event.clientY - box.top) * scale;
    const distance = (mark) => (now.alongX ? Math.abs(mark.x - x) : Math.hypot(mark.x - x, mark.y - y));
    const near = now.marks.reduce((a, b) => (distance(b) < distance(a) ? b : a));
    at = now.marks.indexOf(near);
    if (!now.alongX && distance(near) > 60) hush(now);
    else tell(canvas, now, near);
  });
  canvas.addEventListener("pointerleave", () => hush(plot()));
  canvas.addEventListener("blur", () => hush(plot()));
  canvas.addEventListener("focus", () => {
    const now = plot();
    if (now?.marks.length && canvas.matches(":focus-visible"))
      tell(canvas, now, now.marks[(at = Math.max(0, Math.min(at, now.marks.length - 1)))]);
  });
  canvas.addEventListener("keydown", (event) => {
    const now = plot();
    if (!now?.marks.length) return;
    const last = now.marks.length - 1;
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: last }[
      event.key
    ];
    if (event.key === "Escape") hush(now);
    if (to === undefined) return;
    event.preventDefault();
    tell(canvas, now, now.marks[(at = Math.max(0, Math.min(to, last)))]);
  });
  // A click or Enter opens what the mark stands for, if it stands for something.
  const open = () => plot()?.marks[at]?.open?.();
  canvas.addEventListener("click", open);
  canvas.addEventListener("keypress", (event) => {
    if (event.key === "Enter") open();
  });
}

// Saving: a copy with styles written into its elements, so that it looks the same elsewhere.
const STYLES = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "font-family",
  "font-weight",
  "paint-order",
  "stroke-linejoin",
];
const MARGIN = 16;
function saved(picture) {
  const { width, height } = picture.viewBox.baseVal;
  return { width: width + 2 * MARGIN, height: height + 2 * MARGIN };
}
function standalone(picture) {
  const copy = picture.cloneNode(true);
  const originals = picture.querySelectorAll("*"),
    copies = copy.querySelectorAll("*");
  originals.forEach((element, at) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) copies[at].style.setProperty(name, style.getPropertyValue(name));
    copies[at].removeAttribute("class");
  });
  const size = saved(picture);
  const fill = getComputedStyle(document.body).backgroundColor;
  copy.querySelector("desc").after(svg("rect", { x: -MARGIN, y: -MARGIN, ...size, fill }));
  copy.setAttribute("viewBox", `${-MARGIN} ${-MARGIN} ${size.width} ${size.height}`);
  copy.setAttribute("width", size.width);
  copy.setAttribute("height", size.height);
  copy.setAttribute("xmlns", NS);
  return new XMLSerializer().serializeToString(copy);
}
function offer(url, name) {
  const link = html("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}
function save(figure, kind) {
  const plot = drawn.get(figure);
  if (!plot) return;
  const now = choose();
  const name = [figure.dataset.plot, now.data.name, now.measure].join("-").replace(/[^\w.@-]+/g, "_");
  const url = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(standalone(plot.svg));
  if (kind === "svg") {
    offer(url, `${name}.svg`);
    return;
  }
  const image = new Image();
  image.onload = () => {
    const { width, height } = saved(plot.svg);
    const canvas = html("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    offer(canvas.toDataURL("image/png"), `${name}.png`);
  };
  image.src = url;
}

const PAPER = { width: 680, height: 880 }; // printable area below a heading
let paperWidth = 0; // while printing
function draw(figure) {
  const canvas = figure.querySelector(".canvas"),
    numbers = figure.querySelector(".numbers");
  const width = paperWidth || Math.max(280, Math.floor(canvas.clientWidth));
  const now = choose(),
    name = figure.dataset.plot;
  const lines = LINES[name]?.(now);
  const only = lines ? chooseLine(figure, now, lines) : "";
  const plot = PLOTS[name](width, now, only);
  hush();
  figure.querySelector(".of").textContent =
    `: ${[now.data.name, ...(MEASURED.includes(name) ? [now.measure] : [])].join(", ")}`;
  figure.querySelector(".save").hidden = !plot;
  if (numbers) numbers.hidden = !plot;
  if (!plot) {
    drawn.delete(figure);
    canvas.removeAttribute("tabindex");
    canvas.replaceChildren(html("p", { class: "note" }, "Nothing to show for this choice."));
    return;
  }
  drawn.set(figure, plot);
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "group");
  canvas.setAttribute("aria-label", "Plot; use the arrow keys to move from point to point");
  canvas.replaceChildren(plot.svg);
  if (numbers?.open) fill(figure);
  else numbers?.lastElementChild.replaceChildren();
}
function fill(figure) {
  const plot = drawn.get(figure);
  if (plot) figure.querySelector(".numbers").lastElementChild.replaceChildren(makeTable(plot));
}
function drawAll() {
  const now = choose();
  for (const select of document.querySelectorAll("[data-choose=method]")) {
    const others = comparable(now.data);
    select.replaceChildren(...others.map((method) => html("option", { value: method }, method)));
    select.value = state.method;
    select.closest("label").hidden = others.length < 2;
  }
  fillRankings(now);
  for (const block of document.querySelectorAll(".chosen"))
    block.hidden = Number(block.dataset.data) !== state.data || Number(block.dataset.measure) !== state.measure;
  for (const [name, make] of Object.entries(TABLES))
    for (const holder of document.querySelectorAll(`[data-table=${name}]`)) {
      const made = make(now);
      const note = made?.note ? [html("p", { class: "note" }, made.note)] : [];
      holder.replaceChildren(
        ...(made?.rows.length
          ? [makeTable(made)]
          : note.length
            ? []
            : [html("p", { class: "note" }, "Nothing to show for this choice.")]),
        ...note,
      );
    }
  document.querySelectorAll("figure[data-plot]").forEach(draw);
}

function forgetRankings() {
  state.query = state.left = state.right = -1;
}

function chooser(name, options) {
  const select = document.getElementById(`choose-${name}`);
  if (!select) return;
  select.replaceChildren(...options.map((text, at) => html("option", { value: at }, text)));
  select.closest("label").hidden = options.length < 2;
  select.addEventListener("change", () => {
    state[name] = Number(select.value);
    if (name === "data") forgetRankings();
    drawAll();
  });
}

const theme = document.getElementById("theme");
function showTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  theme.textContent = `Theme: ${name}`;
}
theme.hidden = false;
theme.addEventListener("click", () => {
  const order = ["auto", "light", "dark"];
  showTheme(order[(order.indexOf(document.documentElement.dataset.theme || "auto") + 1) % 3]);
});

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target : null;
  const head = target?.closest("button.sort");
  if (head) sortBy(head);
  const kind = target?.closest("[data-save]");
  if (kind) save(kind.closest("figure"), kind.dataset.save);
  const query = target?.closest("button[data-query]");
  if (query) openRankings(Number(query.dataset.query));
});
document.addEventListener("change", (event) => {
  const name = event.target instanceof HTMLSelectElement ? event.target.dataset.choose : "";
  if (name === "method") {
    state.method = event.target.value;
    state.left = state.right = -1;
    drawAll();
  } else if (name === "line") {
    const figure = event.target.closest("figure");
    state.lines[figure.dataset.plot] = event.target.value;
    draw(figure);
  } else if (name) {
    state[name] = Number(event.target.value);
    fillRankings(choose());
  }
});
document.querySelectorAll("figure[data-plot]").forEach((figure) => {
  listen(figure);
  figure.querySelector(".numbers")?.addEventListener("toggle", (event) => {
    if (event.target.open) fill(figure);
  });
});
chooser(
  "data",
  report.data.map((one) => one.name),
);
chooser("measure", report.measures);
const bar = document.querySelector(".chooser");
if (bar) bar.hidden = report.data.length < 2 && report.measures.length < 2;
if (matchMedia("(max-width: 1080px)").matches) document.querySelector("nav details").open = false;

let headings = []; // text in place of buttons while printing
addEventListener("beforeprint", () => {
  paperWidth = PAPER.width;
  cancelAnimationFrame(waiting); // it would draw the buttons again
  document.querySelectorAll("details.how").forEach((details) => (details.open = true));
  drawAll();
  // Browsers repeat a table heading on every page only if it contains no buttons.
  headings = [...document.querySelectorAll("button.sort")].map((button) => [
    html("span", {}, button.textContent),
    button,
  ]);
  for (const [text, button] of headings) button.replaceWith(text);
});
addEventListener("afterprint", () => {
  paperWidth = 0;
  for (const [text, button] of headings) text.replaceWith(button);
  drawAll();
});

let width = 0,
  waiting = 0;
new ResizeObserver((entries) => {
  const now = entries[0].contentRect.width;
  if (paperWidth || Math.abs(now - width) < 1) return;
  width = now;
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(drawAll);
}).observe(document.querySelector("main"));
drawAll();
