// Building blocks of the plots: elements, scales, axes, legends, marks.

const NS = "http://www.w3.org/2000/svg";
const SHAPES = ["circle", "square", "triangle", "diamond", "down", "cross", "plus", "bar"];
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 2", "6 2 1 2 1 2"];
let serial = 0;

function build(make, tag, attributes, children) {
  const element = make(tag);
  for (const [name, value] of Object.entries(attributes || {}))
    if (value !== undefined && value !== null) element.setAttribute(name, value);
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}
// Strings become text nodes: nothing from the data is ever parsed as markup.
const html = (tag, attributes, ...children) => build((t) => document.createElement(t), tag, attributes, children);
const svg = (tag, attributes, ...children) => build((t) => document.createElementNS(NS, t), tag, attributes, children);

const ruler = document.createElement("canvas").getContext("2d");
function textWidth(text, size = 12) {
  ruler.font = `${size}px system-ui, sans-serif`;
  return ruler.measureText(text).width;
}
function shortened(text, width, size = 12) {
  if (textWidth(text, size) <= width) return text;
  let kept = text;
  while (kept.length > 1 && textWidth(kept + "…", size) > width) kept = kept.slice(0, -1);
  return kept + "…";
}

const minus = (text) => text.replace("-", "−");
const fixed = (value, digits = 4) => (value === null ? "–" : minus(value.toFixed(digits)));
const signed = (value, digits = 4) => (value > 0 ? "+" : "") + fixed(value, digits);
function shortNumber(value) {
  if (value === null) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return minus(value.toExponential(1).replace(".0e", "e").replace("e+", "e"));
  return minus(String(Number(value.toPrecision(3))));
}
const seconds = (value) =>
  value === null ? "–" : value >= 100 ? `${Math.round(value)} s` : `${Number(value.toPrecision(3))} s`;

function niceStep(span, count) {
  const raw = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const share = raw / power;
  return (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10) * power;
}
function ticksOf(low, high, count) {
  const step = niceStep(high - low || 1, count);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
  return ticks.map((value) => ({ value, label: minus((Math.abs(value) < step / 2 ? 0 : value).toFixed(digits)) }));
}
function padded(values, share = 0.06) {
  const low = Math.min(...values),
    high = Math.max(...values);
  const room = (high - low || Math.abs(high) || 1) * share;
  return [low - room, high + room];
}
function linear(low, high, from, to) {
  const scale = (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  scale.ticks = (count) => ticksOf(low, high, count);
  return scale;
}
function logarithmic(low, high, from, to) {
  const inner = linear(Math.log10(low), Math.log10(high), from, to);
  const scale = (value) => inner(Math.log10(value));
  scale.ticks = () => {
    const first = Math.ceil(Math.log10(low) - 1e-9),
      last = Math.floor(Math.log10(high) + 1e-9);
    const powers = [];
    for (let p = first; p <= last; p++) powers.push(p);
    if (powers.length < 2) {
      const fine = [];
      for (let p = first - 1; p <= last; p++)
        for (const f of [1, 2, 5])
          if (f * 10 ** p >= low * 0.999 && f * 10 ** p <= high * 1.001) fine.push(f * 10 ** p);
      return fine.map((value) => ({ value, label: shortNumber(value) }));
    }
    return powers.map((p) => ({ value: 10 ** p, label: shortNumber(10 ** p) }));
  };
  return scale;
}
function drawing(width, height, title, description) {
  const id = `plot-${++serial}`;
  return svg(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-labelledby": `${id}-t ${id}-d`,
      class: "plot",
    },
    svg("title", { id: `${id}-t` }, title),
    svg("desc", { id: `${id}-d` }, description),
  );
}
function label(x, y, text, options = {}) {
  const { anchor = "start", size = 12, kind = "ink" } = options;
  return svg("text", { x, y, "text-anchor": anchor, "font-size": size, class: kind }, text);
}
const line = (x1, y1, x2, y2, kind) => svg("line", { x1, y1, x2, y2, class: kind });

// Grid lines with their numbers; `box` is {left, right, top, bottom}.
function yAxis(parent, scale, box, title) {
  const count = Math.max(2, Math.floor((box.bottom - box.top) / 45));
  for (const tick of scale.ticks(count)) {
    const y = scale(tick.value);
    parent.append(
      line(box.left, y, box.right, y, "grid"),
      label(box.left - 7, y + 4, tick.label, { anchor: "end", size: 11, kind: "soft" }),
    );
  }
  if (title) parent.append(label(box.titleLeft ?? 0, box.top - 12, title, { kind: "soft" }));
}
function xAxis(parent, scale, box, title, grid = false) {
  parent.append(line(box.left, box.bottom, box.right, box.bottom, "axis"));
  let free = -Infinity;
  for (const tick of scale.ticks(Math.max(2, Math.floor((box.right - box.left) / 75)))) {
    const x = scale(tick.value),
      half = textWidth(tick.label, 11) / 2;
    parent.append(grid ? line(x, box.top, x, box.bottom, "grid") : line(x, box.bottom, x, box.bottom + 4, "axis"));
    if (x - half < free) continue;
    free = x + half + 6;
    parent.append(label(x, box.bottom + 18, tick.label, { anchor: "middle", size: 11, kind: "soft" }));
  }
  if (title)
    parent.append(label((box.left + box.right) / 2, box.bottom + 37, title, { anchor: "middle", kind: "soft" }));
}

const POINTS = {
  square: (r) => `M${-r},${-r}H${r}V${r}H${-r}Z`,
  triangle: (r) => `M0,${-1.2 * r}L${1.15 * r},${0.9 * r}H${-1.15 * r}Z`,
  diamond: (r) => `M0,${-1.35 * r}L${1.35 * r},0L0,${1.35 * r}L${-1.35 * r},0Z`,
  down: (r) => `M0,${1.2 * r}L${1.15 * r},${-0.9 * r}H${-1.15 * r}Z`,
  cross: (r) => `M${-r},${-r}L${r},${r}M${-r},${r}L${r},${-r}`,
  plus: (r) => `M${-1.2 * r},0H${1.2 * r}M0,${-1.2 * r}V${1.2 * r}`,
  bar: (r) => `M${-r / 2},${-1.2 * r}H${r / 2}V${1.2 * r}H${-r / 2}Z`,
};
// One style per method in all plots: colour, shape and dashes, so that nothing depends on colour alone.
function look(place) {
  const round = Math.floor(place / 8); // each cycle of colours uses other shapes
  return { kind: `s${place % 8}`, shape: SHAPES[(place + 3 * round) % 8], dash: DASHES[(place + 5 * round) % 8] };
}
function marker(x, y, style, r = 4.5) {
  const kind = `marker ${style.kind}`;
  if (style.shape === "circle") return svg("circle", { cx: x, cy: y, r, class: kind });
  return svg("path", { d: POINTS[style.shape](r), transform: `translate(${x},${y})`, class: kind });
}
// Names with their marks, in as many rows as needed; returns the height.
function legend(parent, entries, left, right, top) {
  let x = left,
    y = top + 8;
  for (const { name, style, lines } of entries) {
    const shown = shortened(name, right - left - 40);
    const room = 36 + textWidth(shown) + 18;
    if (x > left && x + room - 18 > right) {
      x = left;
      y += 22;
    }
    if (lines)
      parent.append(
        svg("line", { x1: x, y1: y, x2: x + 28, y2: y, class: `series ${style.kind}`, "stroke-dasharray": style.dash }),
      );
    parent.append(marker(x + 14, y, style), label(x + 36, y + 4, shown));
    x += room;
  }
  return entries.length ? y - top + 18 : 0;
}
