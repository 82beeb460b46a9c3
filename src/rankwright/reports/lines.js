// Panels of lines: values on validation data, training health, learning curves.
// A panel is {parameter, figure, values, numeric, log, lines: [{method, points: [x, mean, low, high, splits, chosen]}]}.

const highest = (points) => points.reduce((a, b) => (b[1] > a[1] ? b : a));

// With more methods than this, a plot shows one at first, and the others faintly.
const FEW_LINES = 4;
const LINES = {
  paths: (now) => now.data.paths.flatMap((panel) => panel.lines),
  health: (now) => now.data.health.flatMap((panel) => panel.lines),
  curves: (now) => now.data.curves[now.measureAt] || [],
};

// The method that a plot of lines is about, "" for all of them; offered above the plot.
function chooseLine(figure, now, lines) {
  const methods = [...new Set(lines.map((one) => one.method))];
  const select = figure.querySelector("[data-choose=line]"),
    name = figure.dataset.plot;
  if (state.lines[name] === undefined || (state.lines[name] && !methods.includes(state.lines[name])))
    state.lines[name] = methods.length > FEW_LINES ? bestOf(methods, now) : "";
  const all = html("option", { value: "" }, `all ${methods.length} methods`);
  select.replaceChildren(all, ...methods.map((method) => html("option", { value: method }, method)));
  select.value = state.lines[name];
  select.closest("label").hidden = methods.length < 2;
  return state.lines[name];
}

function bestOf(methods, now) {
  const values = now.data.values[Math.max(now.measureAt, 0)];
  const mean = (method) => average(values?.[now.data.methods.indexOf(method)] || []) ?? -Infinity;
  return methods.reduce((a, b) => (mean(b) > mean(a) ? b : a));
}

function linePanels(width, all, title, chosenWord, only = "") {
  const panels = only ? all.filter((panel) => panel.lines.some((one) => one.method === only)) : all;
  const across = width >= 640 && panels.length > 1 ? 2 : 1;
  const wide = (width - (across - 1) * 28) / across;
  const methods = [...new Set(panels.flatMap((panel) => panel.lines.map((one) => one.method)))];
  const styles = new Map(methods.map((name, at) => [name, look(place(name) < 0 ? at : place(name))]));
  const shown = methods.filter((name) => !only || name === only);
  const entries = shown.map((name) => ({ name, style: styles.get(name), lines: true }));
  const isShown = (one) => !only || one.method === only;
  const ringed =
    chosenWord &&
    panels.some((panel) => panel.lines.some((one) => isShown(one) && one.points.some((point) => point[5])));
  const names = svg("g", {});
  const above = legend(names, entries, 0, width, 0) + (ringed ? 20 : 0);
  const usual = across > 1 ? 280 : width < 560 ? 290 : 330;
  const onPaper = Math.max(200, (PAPER.height - above) / Math.ceil(panels.length / across));
  const tall = (panel) =>
    panel.numeric ? Math.min(usual, paperWidth ? onPaper : usual) : 100 + 22 * panel.values.length;
  const tops = [above];
  for (let at = 0; at < panels.length; at += across)
    tops.push(tops.at(-1) + Math.max(...panels.slice(at, at + across).map(tall)));
  const said = panels.flatMap((panel) => inWords({ ...panel, lines: panel.lines.filter(isShown) }));
  const picture = drawing(width, tops.at(-1), title, said.join("; "));
  picture.append(names);
  if (ringed)
    picture.append(
      svg("circle", { cx: 14, cy: above - 14, r: 8, class: "choice-ring" }),
      label(36, above - 10, chosenWord, { kind: "soft" }),
    );
  const drawn = { picture, styles, chosenWord, only, marks: [], rows: [], groups: [] };
  panels.forEach((panel, at) => {
    const left = (at % across) * (wide + 28);
    const top = tops[Math.floor(at / across)];
    (panel.numeric ? alongNumbers : alongNames)(drawn, panel, { left, top, wide, tall: tall(panel) });
  });
  const header = ["method", "along", "at", "figure", "mean", "lowest", "highest", "splits"];
  return { svg: picture, marks: drawn.marks, leave: () => stress(drawn, null), header, rows: drawn.rows };
}

// While one line is highlighted, those of the other methods are dimmed.
function stress(drawn, method) {
  for (const [name, group] of drawn.groups) group.classList.toggle("back", method !== null && name !== method);
}
function groupOf(drawn, method) {
  const group = svg("g", {});
  drawn.groups.push([method, group]);
  drawn.picture.append(group);
  return group;
}

function inWords(panel) {
  return panel.lines.map((one) => {
    const top = highest(one.points);
    const ends = `from ${shortNumber(one.points[0][1])} to ${shortNumber(one.points.at(-1)[1])}, `;
    return `${one.method}, ${panel.parameter}: ${panel.numeric ? ends : ""}highest ${shortNumber(top[1])} at ${top[0]}`;
  });
}

const isFaint = (drawn, one) => drawn.only !== "" && one.method !== drawn.only;
// The chosen line last, above the faint ones.
function inOrder(drawn, panel) {
  return [...panel.lines].sort((a, b) => isFaint(drawn, b) - isFaint(drawn, a));
}

function alongNumbers(drawn, panel, { left, top, wide, tall }) {
  const all = panel.lines.flatMap((one) => one.points.map((point) => point[1]));
  const box = { left: left + 52, right: left + wide - 12, top: top + 32, bottom: top + tall - 52, titleLeft: left };
  const y = linear(...padded(all, 0.1), box.bottom, box.top);
  const x = (panel.log ? logarithmic : linear)(panel.values[0], panel.values.at(-1), box.left + 8, box.right - 8);
  if (panel.values.length <= 10) x.ticks = () => panel.values.map((value) => ({ value, label: shortNumber(value) }));
  yAxis(drawn.picture, y, box, shortened(panel.figure, wide));
  xAxis(drawn.picture, x, box, panel.parameter + (panel.parameter === "round" ? " (up to the shortest split)" : ""));
  for (const one of inOrder(drawn, panel)) {
    const style = drawn.styles.get(one.method),
      faint = isFaint(drawn, one),
      group = faint ? drawn.picture : groupOf(drawn, one.method);
    const spots = one.points.map((point) => [x(point[0]), y(point[1])]);
    const d = "M" + spots.map((spot) => spot.join(",")).join("L");
    if (faint) {
      group.append(svg("path", { d, class: "faint" }));
      continue;
    }
    group.append(svg("path", { d, class: `series ${style.kind}`, "stroke-dasharray": style.dash }));
    const best = highest(one.points);
    one.points.forEach((point, at) =>
      spot(drawn, group, panel, one, point, spots[at], one.points.length <= 25 || point === best),
    );
  }
}

function alongNames(drawn, panel, { left, top, wide, tall }) {
  const all = panel.lines.flatMap((one) => one.points.map((point) => point[1]));
  const gutter = Math.min(0.45 * wide, Math.max(...panel.values.map((name) => textWidth(name, 11))) + 12);
  const box = { left: left + gutter + 8, right: left + wide - 12, top: top + 26, bottom: top + tall - 52 };
  const x = linear(...padded(all, 0.1), box.left, box.right);
  const y = (name) => box.top + (panel.values.indexOf(name) + 0.5) * ((box.bottom - box.top) / panel.values.length);
  const omitted = panel.omitted ? `, the best ${panel.values.length} of ${panel.values.length + panel.omitted}` : "";
  drawn.picture.append(label(left, top + 14, shortened(panel.parameter + omitted, wide), { kind: "soft" }));
  xAxis(drawn.picture, x, box, panel.figure, true);
  for (const name of panel.values)
    drawn.picture.append(label(left + gutter, y(name) + 4, shortened(name, gutter, 11), { anchor: "end", size: 11 }));
  for (const one of panel.lines) {
    if (isFaint(drawn, one)) continue;
    const group = groupOf(drawn, one.method);
    for (const point of one.points) spot(drawn, group, panel, one, point, [x(point[1]), y(point[0])], true);
  }
}

function spot(drawn, group, panel, one, point, [x, y], marked) {
  const [value, mean, low, high, splits, chosen] = point;
  const ringed = chosen && drawn.chosenWord;
  if (ringed) group.append(svg("circle", { cx: x, cy: y, r: 8, class: "choice-ring" }));
  if (marked) group.append(marker(x, y, drawn.styles.get(one.method), 4));
  const lines = [one.method, `${panel.parameter} ${panel.numeric ? shortNumber(value) : value}: ${shortNumber(mean)}`];
  if (splits > 1) lines.push(`${shortNumber(low)} … ${shortNumber(high)} over ${splits} splits`);
  if (ringed) lines.push(`chosen ${chosen === 1 ? "once" : chosen + " times"}`);
  drawn.marks.push({ x, y, lines, point: () => stress(drawn, one.method) });
  drawn.rows.push([one.method, panel.parameter, value, panel.figure, mean, low, high, splits]);
}

function plotPaths(width, chosen, only) {
  const panels = chosen.data.paths;
  const title = `Values on validation data, ${chosen.data.name}`;
  return panels.length ? linePanels(width, panels, title, "chosen in at least one split", only) : null;
}

function plotHealth(width, chosen, only) {
  const panels = chosen.data.health;
  return panels.length ? linePanels(width, panels, `Training health, ${chosen.data.name}`, "", only) : null;
}

function plotCurves(width, chosen, only) {
  const lines = chosen.data.curves[chosen.measureAt];
  if (!lines || !lines.length) return null;
  const values = [...new Set(lines.flatMap((one) => one.points.map((point) => point[0])))].sort((a, b) => a - b);
  const log = values[0] > 0 && values.at(-1) / values[0] > 10;
  const panel = {
    parameter: "training queries",
    figure: `${chosen.measure} on test queries`,
    values,
    log,
    numeric: true,
    lines,
  };
  return linePanels(width, [panel], `Learning curves in ${chosen.measure}, ${chosen.data.name}`, "", only);
}
