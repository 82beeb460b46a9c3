// Query by query: the plot of differences, and the tables by kind and of the hardest queries.

function plotQueries(width, chosen) {
  const { data, measureAt, measure, method } = chosen;
  const values = data.values[measureAt],
    base = baseValues(data, measureAt, method),
    own = values?.[data.methods.indexOf(method)];
  if (!base || !own) return null;
  const rows = data.queries
    .map(([id, text, kind], at) => ({
      at,
      id,
      text,
      kind,
      own: own[at],
      base: base[at],
      gain: own[at] === null || base[at] === null ? null : own[at] - base[at],
    }))
    .filter((row) => row.gain !== null)
    .sort((a, b) => b.gain - a.gain);
  if (!rows.length) return null;
  const wins = rows.filter((row) => row.gain > 1e-12).length,
    losses = rows.filter((row) => row.gain < -1e-12).length;
  const box = { left: 50, right: width - 4, top: 36, bottom: width < 560 ? 290 : 330, titleLeft: 0 };
  const [low, high] = padded([0, ...rows.map((row) => row.gain)], 0.08);
  const y = linear(low, high, box.bottom, box.top);
  const [before, after] = sideNames(method);
  const said = `${after} against ${before} on ${rows.length} queries: better on ${wins}, equal on ${rows.length - wins - losses}, worse on ${losses}. Largest gain ${signed(rows[0].gain)} on “${rows[0].text || rows[0].id}”, largest loss ${signed(rows.at(-1).gain)} on “${rows.at(-1).text || rows.at(-1).id}”.`;
  const picture = drawing(width, box.bottom + 34, `Difference in ${measure} on every query of ${data.name}`, said);
  yAxis(
    picture,
    y,
    box,
    shortened(
      report.before
        ? `${measure} of ${method}: ${after} − ${before}`
        : `${measure} of ${after} − ${measure} of ${before}`,
      width,
    ),
  );
  const step = (box.right - box.left) / rows.length,
    gap = step >= 4 ? 1 : 0;
  const bar = (row, at) => {
    const top = Math.min(y(row.gain), y(0)),
      height = Math.abs(y(row.gain) - y(0));
    return `M${(box.left + at * step + gap / 2).toFixed(2)},${top.toFixed(2)}h${(step - gap).toFixed(2)}v${height.toFixed(2)}h${(gap - step).toFixed(2)}Z`;
  };
  const bars = (wanted) => rows.map((row, at) => (wanted(row.gain) ? bar(row, at) : "")).join("");
  picture.append(
    svg("path", { d: bars((gain) => gain > 0), class: "bars better" }),
    svg("path", { d: bars((gain) => gain < 0), class: "bars worse" }),
  );
  picture.append(line(box.left, y(0), box.right, y(0), "zero"));
  const pointer = svg("path", { d: "", class: "pointed" });
  picture.append(
    pointer,
    label(box.right, box.top + 8, `▲ better on ${wins}`, { anchor: "end", kind: "strong better halo" }),
    label(box.left + 6, box.bottom - 8, `▼ worse on ${losses}`, { kind: "strong worse halo" }),
    label(
      (box.left + box.right) / 2,
      box.bottom + 22,
      `${rows.length} queries, from the largest gain to the largest loss`,
      { anchor: "middle", kind: "soft" },
    ),
  );
  const marks = rows.map((row, at) => ({
    x: box.left + (at + 0.5) * step,
    y: y(row.gain),
    lines: [
      row.text || `query ${row.id}`,
      `${row.id}${row.kind ? ", " + row.kind : ""}`,
      `${signed(row.gain)}: ${before} ${fixed(row.base)}, ${after} ${fixed(row.own)}`,
    ],
    point: () => pointer.setAttribute("d", bar({ gain: row.gain || (high - low) * 0.01 }, at)),
    open: rankingOf(data, row.at) ? () => openRankings(row.at) : null,
  }));
  return {
    svg: picture,
    marks,
    alongX: true,
    leave: () => pointer.setAttribute("d", ""),
    header: ["query", "text", "kind", before, after, "difference"],
    textColumns: 3,
    rows: rows.map((row) => [toOpen(data, row.at), row.text, row.kind, row.base, row.own, row.gain]),
  };
}

// What stands on the two sides of a difference: baseline and method, or two folders.
const sideNames = (method) => (report.before ? [report.before, report.after] : [report.baseline, method]);

// The values that a method is compared with: the baseline's, or its own in the folder before.
function baseValues(data, measureAt, method) {
  const values = report.before ? data.before : data.values;
  return values[measureAt]?.[data.methods.indexOf(report.before ? method : report.baseline)];
}

// The id of a query: a button if its rankings are kept.
function toOpen(data, at) {
  const text = data.queries[at][0];
  return rankingOf(data, at) ? { query: at, text } : text;
}

const average = (values) => {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((a, b) => a + b) / known.length : null;
};

function kindsTable(chosen) {
  const { data, measureAt, measure } = chosen;
  const kinds = [...new Set(data.queries.map((query) => query[2]))];
  const values = data.values[measureAt];
  if (kinds.length < 2 || !values) return null;
  const of = (kind) => data.queries.filter((query) => query[2] === kind).length;
  return {
    caption: `${data.name}: mean ${measure} by kind of query`,
    header: ["method", ...kinds.map((kind) => `${kind || "no kind"} (${of(kind)})`)],
    rows: data.methods.map((method, m) => [
      method,
      ...kinds.map((kind) => average(values[m].filter((_, q) => data.queries[q][2] === kind))),
    ]),
  };
}

function hardestTable(chosen) {
  const { data, measureAt, measure } = chosen;
  const values = data.values[measureAt];
  if (!values) return null;
  const base = data.methods.indexOf(report.baseline);
  const rows = data.queries.map(([, text], q) => {
    const own = values.map((row) => row[q]);
    const best = Math.max(...own.filter((value) => value !== null));
    const who = data.methods.filter((_, m) => own[m] === best);
    return {
      at: q,
      text,
      mean: average(own),
      base: base < 0 ? null : own[base],
      best,
      who: who.length === data.methods.length ? "all" : who.length > 2 ? `${who.length} methods` : who.join(", "),
    };
  });
  const without = data.relevant.filter((count) => count === 0).length;
  const able = rows.filter((row) => row.mean !== null && data.relevant[row.at] !== 0);
  const nothing = able.filter((row) => row.mean === 0);
  const unknown = nothing.filter((row) => data.relevant[row.at] === null).length;
  const hardest = able.sort((a, b) => a.mean - b.mean || a.best - b.best).slice(0, 12);
  return {
    caption: `${data.name}: queries with the lowest mean ${measure}${nothing.length > 1 ? ` (${nothing.length} have 0)` : ""}`,
    note: [
      without ? `Left out: ${without} ${without === 1 ? "query" : "queries"} without a relevant document.` : "",
      unknown > 1
        ? `The results do not say whether the ${unknown} queries with 0 by every method have relevant documents.`
        : "",
    ]
      .join(" ")
      .trim(),
    header: ["query", "text", "mean", report.baseline, "best", "of"],
    textColumns: 2,
    rows: hardest.map((row) => [toOpen(data, row.at), row.text, row.mean, row.base, row.best, row.who]),
  };
}
