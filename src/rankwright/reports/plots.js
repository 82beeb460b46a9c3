// The plots: each takes a width and the current choice, and returns {svg, marks, header, rows}, or null if empty.
// marks are {x, y, lines}: the text shown when a point is hovered over or reached with the arrow keys.

const place = (method) => report.methods.indexOf(method);

function plotDifferences(width, chosen) {
  const rows = chosen.data.differences[chosen.measureAt];
  if (!rows || !rows.length) return null;
  const narrow = width < 560;
  const gutter = narrow ? 0 : Math.min(0.3 * width, Math.max(...rows.map((row) => textWidth(row.method))) + 16);
  const rowHeight = narrow ? 46 : 34;
  const box = { left: gutter + 8, right: width - 92, top: 26, bottom: 26 + rows.length * rowHeight };
  const [low, high] = padded([
    0,
    ...rows.flatMap((row) => [row.low ?? row.difference, row.high ?? row.difference, row.difference]),
  ]);
  const x = linear(low, high, box.left, box.right);
  const said = rows.map(
    (row) =>
      `${row.method} ${signed(row.difference)}, interval ${signed(row.low)} to ${signed(row.high)}, ${row.sign ? "" : "not "}significant`,
  );
  const picture = drawing(
    width,
    box.bottom + 48,
    `Differences from ${report.baseline} in ${chosen.measure} on ${chosen.data.name}`,
    said.join("; "),
  );
  xAxis(picture, x, box, `difference in ${chosen.measure}`, true);
  picture.append(
    line(x(0), box.top - 6, x(0), box.bottom, "zero"),
    label(Math.max(x(0), textWidth(report.baseline) / 2), box.top - 12, report.baseline, {
      anchor: "middle",
      kind: "soft",
    }),
  );
  const marks = rows.map((row, at) => {
    const top = box.top + at * rowHeight,
      y = top + (narrow ? 31 : rowHeight / 2);
    const kind = row.sign > 0 ? "better" : row.sign < 0 ? "worse" : "unsure";
    const name = shortened(row.method, narrow ? width - 10 : gutter - 8);
    if (narrow) {
      // A halo keeps the name readable where it crosses the zero line.
      picture.append(label(0, top + 15, name, { kind: "ink halo" }));
    } else picture.append(label(gutter, y + 4, name, { anchor: "end" }));
    if (row.low !== null) {
      for (const end of [row.low, row.high]) picture.append(line(x(end), y - 5, x(end), y + 5, `interval ${kind}`));
      picture.append(line(x(row.low), y, x(row.high), y, `interval ${kind}`));
    }
    picture.append(svg("circle", { cx: x(row.difference), cy: y, r: 5.5, class: `dot ${kind}` }));
    const mark = row.sign > 0 ? " ▲" : row.sign < 0 ? " ▼" : "";
    picture.append(
      label(box.right + 12, y + 4, signed(row.difference) + mark, { kind: row.sign ? `strong ${kind}` : "ink" }),
    );
    return {
      x: x(row.difference),
      y,
      lines: [
        row.method,
        `${signed(row.difference)} (${signed(row.low)} … ${signed(row.high)})`,
        `${row.wins} better, ${row.ties} equal, ${row.losses} worse`,
        `p = ${shortNumber(row.p)}, ${row.sign ? "significant" : "not significant"}`,
      ],
    };
  });
  return {
    svg: picture,
    marks,
    header: ["method", "mean", "difference", "low", "high", "wins", "ties", "losses", "p"],
    rows: rows.map((row) => [
      row.method,
      row.mean,
      row.difference,
      row.low,
      row.high,
      row.wins,
      row.ties,
      row.losses,
      row.p,
    ]),
  };
}

function plotCriteria(width, chosen) {
  const { criteria, measures, name } = chosen.data;
  if (!criteria.length) return null;
  const order = (goal) => (measures.includes(goal) ? measures.indexOf(goal) : measures.length);
  const rows = [...criteria].sort((a, b) => order(a[1]) - order(b[1]));
  const widest = Math.max(...rows.map((row) => Math.max(textWidth(row[0]), textWidth("for " + row[1], 11))));
  const gutter = Math.min(width * 0.34, widest + 14);
  const full = Math.max(width, gutter + measures.length * 58);
  const cell = Math.min(150, (full - gutter - 2) / measures.length),
    tall = 42;
  const top = 48;
  const columns = measures.map((_, at) => rows.map((row) => row[2][at]).filter((value) => value !== null));
  const best = columns.map((column) => Math.max(...column)),
    worst = columns.map((column) => Math.min(...column));
  const said = measures.map(
    (measure, at) =>
      `best in ${measure}: ${rows
        .filter((row) => row[2][at] === best[at])
        .map((row) => row[0])
        .join(", ")}`,
  );
  const picture = drawing(full, top + rows.length * tall + 34, `Trained for and tested on, ${name}`, said.join("; "));
  picture.append(label(gutter, 14, "tested on", { kind: "soft" }), label(0, top - 8, "method", { kind: "soft" }));
  measures.forEach((measure, at) => {
    const size = [12, 11, 10].find((size) => textWidth(measure, size) <= cell - 4) || 10;
    picture.append(
      label(gutter + (at + 0.5) * cell, top - 8, shortened(measure, cell - 4, size), { anchor: "middle", size }),
    );
  });
  const marks = [];
  rows.forEach(([method, goal, values], r) => {
    const y = top + r * tall;
    picture.append(
      label(0, y + 18, shortened(method, gutter - 10)),
      label(0, y + 33, shortened("for " + goal, gutter - 10, 11), { size: 11, kind: "soft" }),
    );
    values.forEach((value, at) => {
      const x = gutter + at * cell;
      const share = value === null ? 0 : best[at] > worst[at] ? (value - worst[at]) / (best[at] - worst[at]) : 1;
      const isBest = value !== null && value === best[at];
      picture.append(
        svg("rect", {
          x: x + 1,
          y: y + 1,
          width: cell - 2,
          height: tall - 2,
          rx: 3,
          class: "heat",
          "fill-opacity": (0.05 + 0.6 * share).toFixed(3),
        }),
      );
      if (isBest)
        picture.append(
          svg("rect", { x: x + 2.5, y: y + 2.5, width: cell - 5, height: tall - 5, rx: 2, class: "ring" }),
        );
      if (goal === measures[at])
        picture.append(svg("path", { d: `M${x + cell - 13},${y + 4}H${x + cell - 4}V${y + 13}Z`, class: "corner" }));
      picture.append(
        label(x + cell / 2, y + tall / 2 + 4, fixed(value, cell < 62 ? 3 : 4), {
          anchor: "middle",
          kind: isBest ? "strong ink" : "ink",
        }),
      );
      marks.push({
        x: x + cell / 2,
        y: y + tall / 2,
        lines: [
          `${method}, trained for ${goal}`,
          `${measures[at]} ${fixed(value)}`,
          isBest ? "best in the column" : `${fixed(best[at] - value)} below the best`,
        ],
      });
    });
  });
  const y = top + rows.length * tall + 22;
  picture.append(
    svg("rect", { x: 1, y: y - 11, width: 16, height: 13, rx: 2, class: "ring" }),
    label(23, y, "best in column", { size: 11, kind: "soft" }),
    svg("path", { d: `M${136},${y - 10}H${146}V${y}Z`, class: "corner" }),
    label(152, y, "trained for this", { size: 11, kind: "soft" }),
  );
  return {
    svg: picture,
    marks,
    header: ["method", "trained for", ...measures],
    rows: rows.map(([method, goal, values]) => [method, goal, ...values]),
  };
}

// A place for the name next to every point, or null if not all of them fit.
function namesBeside(spots, width, bottom) {
  const taken = spots.map((spot) => [spot.x - 7, spot.y - 7, spot.x + 7, spot.y + 7]);
  const free = (b) =>
    b[0] >= 50 && // not over the numbers of the axis
    b[2] <= width &&
    b[1] > 18 &&
    b[3] < bottom &&
    taken.every((t) => b[2] < t[0] || b[0] > t[2] || b[3] < t[1] || b[1] > t[3]);
  const tries = [
    [9, 4, "start"],
    [-9, 4, "end"],
    [0, -11, "middle"],
    [0, 19, "middle"],
    [9, 18, "start"],
    [-9, 18, "end"],
    [9, -9, "start"],
    [-9, -9, "end"],
  ];
  const names = [];
  for (const { row, x, y } of spots) {
    const w = textWidth(row.method);
    if (w > 150) return null;
    const found = tries.find(([dx, dy, anchor]) => {
      const from = x + dx - (anchor === "end" ? w : anchor === "middle" ? w / 2 : 0);
      const b = [from, y + dy - 11, from + w, y + dy + 3];
      return free(b) && taken.push(b);
    });
    if (!found) return null;
    names.push({ x: x + found[0], y: y + found[1], anchor: found[2] });
  }
  return names;
}

function plotTime(width, chosen) {
  const { times, methods, values } = chosen.data;
  const rows = times
    .map(([method, train, tune]) => {
      const own = (values[chosen.measureAt]?.[methods.indexOf(method)] || []).filter((value) => value !== null);
      return { method, train: train ?? 0, tune, mean: own.length ? own.reduce((a, b) => a + b) / own.length : null };
    })
    .filter((row) => row.mean !== null);
  if (!rows.length) return null;
  const timed = rows.filter((row) => row.train > 0).map((row) => row.train);
  const none = timed.length < rows.length ? 76 : 0;
  const box = { left: 52 + none, right: width - 16, top: 32, bottom: 300, titleLeft: 0 };
  const [worst, best] = padded(
    rows.map((row) => row.mean),
    0.14,
  );
  const low = Math.min(...timed, 1e9),
    high = Math.max(...timed, 0);
  const x = timed.length ? logarithmic(low / 1.6, Math.max(high, low * 2) * 1.6, box.left, box.right) : null;
  const placed = () => {
    const y = linear(worst, best, box.bottom, box.top);
    return rows.map((row) => ({ row, x: row.train > 0 ? x(row.train) : 52 + none / 2 - 6, y: y(row.mean) }));
  };
  let spots = placed();
  const names = namesBeside(spots, width, box.bottom);
  const list = svg("g", {}); // names that do not fit next to their marks
  if (!names) {
    const entries = rows.map((row) => ({ name: row.method, style: look(place(row.method)) }));
    const above = legend(list, entries, 0, width, 0);
    box.top += above;
    box.bottom += above;
    spots = placed();
  }
  const said = rows.map((row) => `${row.method} ${fixed(row.mean)} in ${seconds(row.train)}`);
  const picture = drawing(
    width,
    box.bottom + 48,
    `${chosen.measure} against seconds of training, ${chosen.data.name}`,
    said.join("; "),
  );
  picture.append(list);
  yAxis(picture, linear(worst, best, box.bottom, box.top), { ...box, left: 52 }, `${chosen.measure} on test queries`);
  if (x) xAxis(picture, x, box, "seconds of one training (logarithmic)");
  if (none)
    picture.append(
      line(52, box.bottom, box.left - 12, box.bottom, "axis"),
      label(52 + none / 2 - 6, box.bottom + 18, "no training", { anchor: "middle", size: 11, kind: "soft" }),
    );
  spots.forEach((spot, at) => {
    const name = names?.[at];
    if (name) picture.append(label(name.x, name.y, spot.row.method, { anchor: name.anchor, kind: "ink halo" }));
    picture.append(marker(spot.x, spot.y, look(place(spot.row.method)), 5.5));
  });
  const marks = spots.map(({ row, x: px, y: py }) => ({
    x: px,
    y: py,
    lines: [
      row.method,
      `${chosen.measure} ${fixed(row.mean)}`,
      `training ${seconds(row.train)}`,
      ...(row.tune ? [`tuning ${seconds(row.tune)}`] : []),
    ],
  }));
  return {
    svg: picture,
    marks,
    header: ["method", chosen.measure, "seconds of training", "seconds of tuning"],
    rows: rows.map((row) => [row.method, row.mean, row.train, row.tune]),
  };
}
