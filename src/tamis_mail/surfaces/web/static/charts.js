// Charts as SVG: lines with bands, points with intervals, and bars, on linear, logarithmic, time or named axes.
//
// drawChart(figure, chart) fills an empty <figure>. A chart is
//   { title, description, x, y, marks, table }
// where an axis is
//   { title, kind: "number" | "log" | "time" | "names", low, high, ticks, names, format }
// (`time` counts days since 1970; `names` counts 0, 1, 2, … from the top or from the left), and a mark is one of
//   { kind: "band", name, tone, points: [[x, low, high], …] }
//   { kind: "line", name, tone, points: [[x, y], …], isDashed }
//   { kind: "points", name, tone, symbol, points: [{ x, y, low, high, left, right, size, text, href }, …] }
//   { kind: "bars", name, tone, points: [{ x, y, base, width, text, href }, …] }
// (a symbol is circle, square, triangle or none; a tone is a colour of charts.css; a mark with a name is in the
// legend). The table is { columns: [title, …], rows: [[cell, …], …] }.
//
// A point with a text is a stop: it can be chosen by the pointer, by a tap and by the arrow keys; Enter opens its
// href. Every chart has a description and a table of its numbers, for readers who do not see it. Texts are inserted
// as text, never as markup.

import { findTicks } from "./plane.js";
import { element, makeSvg } from "./request.js";

const HEIGHT = 320; // pixels, as all lengths here
const TOP = 26; // margins: this one has the title of the vertical axis
const BOTTOM = 46; // has the labels and the title of the horizontal axis
const RIGHT = 16;
const POINTER_DISTANCE = 28; // pixels from the pointer within which a point is chosen
const DAY = 86400000; // milliseconds

let chartCount = 0;

/** Format a number with few digits. */
export function formatNumber(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) {
    return "–";
  }
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });
}

/** Format a share as a percentage. */
export function formatShare(value, digits = 1) {
  return value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)} %`;
}

/** Format a number of days since 1970 as a date. */
export function formatDay(day) {
  const date = new Date(day * DAY);
  return Number.isNaN(date.getTime()) ? "–" : date.toISOString().slice(0, 10);
}

/** Return the ticks of an axis, about `count` of them: pairs of a value and its label. */
function listTicks(axis, count) {
  if (axis.ticks) {
    return axis.ticks;
  }
  if (axis.kind === "names") {
    return axis.names.map((name, number) => [number, name]);
  }
  if (axis.kind === "log") {
    const ticks = [];
    for (let power = Math.ceil(Math.log10(axis.low) - 1e-9); 10 ** power <= axis.high * 1.001; power += 1) {
      ticks.push([10 ** power, (10 ** power).toLocaleString("en")]);
    }
    return ticks;
  }
  if (axis.kind === "time") {
    const span = Math.max(1, Math.round(axis.high - axis.low));
    const step = Math.max(1, Math.ceil(span / count));
    const isLong = span > 500;
    const ticks = [];
    for (let day = Math.ceil(axis.low); day <= axis.high; day += step) {
      ticks.push([day, isLong ? formatDay(day).slice(0, 7) : formatDay(day).slice(5)]);
    }
    return ticks;
  }
  const values = findTicks(axis.low, axis.high, count);
  const digits = Math.max(0, ...values.map((value) => String(value).split(".")[1]?.length ?? 0)); // after the point
  const format = axis.format ?? ((value) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  return values.map((value) => [value, format(value)]);
}

/** Return a function from values of an axis to pixels between start and stop; values outside are clipped. */
function makeScale(axis, start, stop) {
  if (axis.kind === "names") {
    const step = (stop - start) / axis.names.length;
    return (value) => start + step * (value + 0.5);
  }
  const transform = axis.kind === "log" ? (value) => Math.log10(Math.max(value, axis.low)) : (value) => value;
  const low = transform(axis.low);
  const span = transform(axis.high) - low || 1;
  const clip = (value) => Math.min(Math.max(value, low), low + span);
  return (value) => start + ((stop - start) * (clip(transform(value)) - low)) / span;
}

function drawSymbol(symbol, x, y, size, attributes) {
  if (symbol === "triangle") {
    const r = size * 1.25;
    return makeSvg("path", { d: `M${x},${y - r}L${x + r},${y + r * 0.75}L${x - r},${y + r * 0.75}Z`, ...attributes });
  }
  if (symbol === "square") {
    return makeSvg("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, ...attributes });
  }
  return makeSvg("circle", { cx: x, cy: y, r: size, ...attributes });
}

function makePath(points) {
  return points.map(([x, y], number) => `${number ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
}

/** Draw a mark by the scales x and y, and append its stops to `stops`. */
function drawMark(mark, x, y, stops) {
  const group = makeSvg("g", { class: `mark ${mark.kind} tone-${mark.tone}` });
  if (mark.kind === "band") {
    const upper = mark.points.map(([at, , high]) => [x(at), y(high)]);
    const lower = mark.points.map(([at, low]) => [x(at), y(low)]).reverse();
    group.append(makeSvg("path", { d: `${makePath([...upper, ...lower])}Z` }));
    return group;
  }
  if (mark.kind === "line") {
    group.append(makeSvg("path", { d: makePath(mark.points.map(([at, value]) => [x(at), y(value)])), class: mark.isDashed ? "dashed" : null }));
    return group;
  }
  for (const point of mark.points) {
    const left = x(point.x);
    const top = y(point.y);
    if (mark.kind === "bars") {
      const width = point.width ?? mark.width ?? 8;
      const base = y(point.base ?? 0);
      group.append(makeSvg("rect", { x: left - width / 2, y: Math.min(top, base), width, height: Math.max(Math.abs(base - top), 0.5) }));
    } else {
      if (point.low !== undefined) {
        group.append(makeSvg("path", { class: "interval", d: `M${left},${y(point.low)}V${y(point.high)}` }));
      }
      if (point.left !== undefined) {
        group.append(makeSvg("path", { class: "interval", d: `M${x(point.left)},${top}H${x(point.right)}` }));
      }
      if (mark.symbol !== "none") {
        group.append(drawSymbol(mark.symbol, left, top, point.size ?? 4, {}));
      }
    }
    if (point.text) {
      stops.push({ left, top, point });
    }
  }
  return group;
}

function drawAxes(chart, x, y, box, labels) {
  const group = makeSvg("g", { class: "axes" });
  const right = box.width - RIGHT;
  const bottom = HEIGHT - BOTTOM;
  group.append(makeSvg("path", { class: "frame", d: `M${box.left},${TOP}V${bottom}H${right}` }));
  let end = -Infinity;
  for (const [value, label] of labels.x) {
    const at = x(value);
    const half = 4 * label.length; // about half its width
    group.append(makeSvg("path", { class: "tick", d: `M${at},${bottom}v5` }));
    if (at - half > end + 6) {
      const centre = Math.min(Math.max(at, half), box.width - half);
      group.append(makeSvg("text", { x: centre, y: bottom + 19, "text-anchor": "middle" }, label));
      end = at + half;
    }
  }
  for (const [value, label] of labels.y) {
    const at = y(value);
    group.append(makeSvg("path", { class: "grid", d: `M${box.left},${at}H${right}` }));
    group.append(makeSvg("text", { x: box.left - 7, y: at + 4, "text-anchor": "end" }, label));
  }
  const half = 3.4 * chart.x.title.length; // about half its width
  const middle = Math.max(Math.min((box.left + right) / 2, box.width - half), half);
  group.append(makeSvg("text", { class: "axis-title", x: middle, y: HEIGHT - 6, "text-anchor": "middle" }, chart.x.title));
  group.append(makeSvg("text", { class: "axis-title", x: 0, y: 12 }, chart.y.title));
  return group;
}

function drawPlot(chart, width, identifier) {
  const labels = { x: listTicks(chart.x, Math.max(2, Math.floor(width / 110))), y: listTicks(chart.y, 5) };
  const widest = Math.max(0, ...labels.y.map(([, label]) => label.length));
  const box = { width, left: Math.min(14 + 7.2 * widest, width * 0.45) }; // a character is about 7.2 wide
  const x = makeScale(chart.x, box.left, width - RIGHT);
  const y = chart.y.kind === "names" ? makeScale(chart.y, TOP, HEIGHT - BOTTOM) : makeScale(chart.y, HEIGHT - BOTTOM, TOP);
  const picture = makeSvg(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-labelledby": `${identifier}-title ${identifier}-text` },
    makeSvg("title", { id: `${identifier}-title` }, chart.title),
  );
  const stops = [];
  picture.append(drawAxes(chart, x, y, box, labels));
  for (const mark of chart.marks) {
    picture.append(drawMark(mark, x, y, stops));
  }
  const cursor = makeSvg("circle", { class: "cursor", r: 9, visibility: "hidden" });
  picture.append(cursor);
  return { picture, stops, cursor };
}

function drawLegend(chart) {
  const list = element("ul", { class: "legend" });
  for (const mark of chart.marks.filter((one) => one.name)) {
    const sample = makeSvg("svg", { viewBox: "0 0 22 12", width: 22, height: 12, "aria-hidden": "true" });
    const group = makeSvg("g", { class: `mark ${mark.kind} tone-${mark.tone}` });
    if (mark.kind === "band" || mark.kind === "bars") {
      group.append(makeSvg("rect", { x: 1, y: 1, width: 20, height: 10 }));
    } else if (mark.kind === "line") {
      group.append(makeSvg("path", { d: "M1,6H21", class: mark.isDashed ? "dashed" : null }));
    } else {
      group.append(drawSymbol(mark.symbol, 11, 6, 4, {}));
    }
    sample.append(group);
    list.append(element("li", {}, sample, mark.name));
  }
  return list;
}

function makeTable(chart) {
  const head = element("tr", {}, ...chart.table.columns.map((column) => element("th", { scope: "col" }, column)));
  const rows = chart.table.rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, String(cell)))));
  const table = element("table", {}, element("caption", { class: "hidden-visually" }, chart.title), element("thead", {}, head), element("tbody", {}, ...rows));
  return element("div", { class: "wide", tabindex: 0, role: "region", "aria-label": `Numbers: ${chart.title}` }, table);
}

/** Return the index of the stop that an arrow key leads to: the nearest one in that direction. */
function findNext(stops, current, key) {
  const directions = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
  const [dx, dy] = directions[key];
  const from = stops[current];
  let best = current;
  let least = Infinity;
  stops.forEach((stop, number) => {
    const ahead = (stop.left - from.left) * dx + (stop.top - from.top) * dy;
    const aside = Math.abs((stop.left - from.left) * dy) + Math.abs((stop.top - from.top) * dx);
    if (number !== current && ahead > 0.01 && ahead + 2 * aside < least) {
      best = number;
      least = ahead + 2 * aside;
    }
  });
  return best;
}

/** Fill a figure with a chart; it is drawn again when its width changes. */
export function drawChart(figure, chart) {
  chartCount += 1;
  const identifier = `chart-${chartCount}`;
  const plot = element("div", { class: "plot" });
  const hint = "Point at the chart, or focus it and use the arrow keys.";
  const current = element("p", { class: "current quiet", "aria-live": "polite" }, hint);
  const description = element("p", { class: "description", id: `${identifier}-text` }, chart.description);
  const details = element("details", {}, element("summary", {}, `Numbers: ${chart.title}`));
  details.addEventListener("toggle", () => details.open && details.children.length < 2 && details.append(makeTable(chart)));
  figure.classList.add("chart");
  figure.replaceChildren(element("figcaption", {}, chart.title), description, drawLegend(chart), plot, current, details);

  let drawn = null;
  let chosen = -1;

  function choose(number) {
    chosen = number;
    const stop = drawn.stops[number];
    drawn.cursor.setAttribute("visibility", stop ? "visible" : "hidden");
    if (!stop) {
      current.textContent = hint;
      return;
    }
    drawn.cursor.setAttribute("cx", stop.left);
    drawn.cursor.setAttribute("cy", stop.top);
    current.textContent = stop.point.text;
    if (stop.point.href) {
      current.append(" ", element("a", { href: stop.point.href, tabindex: -1 }, "Open"));
    }
  }

  function findNearest(event) {
    const area = drawn.picture.getBoundingClientRect();
    const distances = drawn.stops.map((stop) => Math.hypot(stop.left - (event.clientX - area.left), stop.top - (event.clientY - area.top)));
    const least = Math.min(...distances);
    return least <= POINTER_DISTANCE ? distances.indexOf(least) : -1;
  }

  function render() {
    const width = Math.round(Math.min(Math.max(plot.clientWidth, 240), 1100));
    if (drawn && Number(drawn.picture.getAttribute("width")) === width) {
      return;
    }
    drawn = drawPlot(chart, width, identifier);
    plot.replaceChildren(drawn.picture);
    current.hidden = drawn.stops.length === 0;
    if (drawn.stops.length) {
      plot.setAttribute("tabindex", 0);
      plot.setAttribute("role", "application");
      plot.setAttribute("aria-label", `${chart.title}: use the arrow keys to read its points`);
    }
    choose(Math.min(chosen, drawn.stops.length - 1));
  }

  plot.addEventListener("pointermove", (event) => {
    const nearest = findNearest(event);
    if (nearest >= 0 && nearest !== chosen) {
      choose(nearest);
    }
    plot.classList.toggle("can-open", nearest >= 0 && Boolean(drawn.stops[nearest].point.href));
  });
  plot.addEventListener("click", (event) => {
    const nearest = findNearest(event);
    if (nearest >= 0) {
      const isMouse = event.pointerType !== "touch"; // a tap only chooses: the link below opens
      choose(nearest);
      if (isMouse && drawn.stops[nearest].point.href) {
        location.assign(drawn.stops[nearest].point.href);
      }
    }
  });
  plot.addEventListener("keydown", (event) => {
    if (!drawn.stops.length) {
      return;
    }
    if (event.key.startsWith("Arrow")) {
      choose(chosen < 0 ? 0 : findNext(drawn.stops, chosen, event.key));
    } else if (event.key === "Home" || event.key === "End") {
      choose(event.key === "Home" ? 0 : drawn.stops.length - 1);
    } else if (event.key === "Escape") {
      choose(-1);
    } else if (event.key === "Enter" && chosen >= 0 && drawn.stops[chosen].point.href) {
      location.assign(drawn.stops[chosen].point.href);
    } else {
      return;
    }
    event.preventDefault();
  });
  render();
  new ResizeObserver(render).observe(figure);
}
