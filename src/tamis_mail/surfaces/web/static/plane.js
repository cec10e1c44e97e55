// A plane with axes, drawn as SVG: curves, bands, polygons, points; and an editor with which points are added,
// moved and removed by pointer or keyboard. Colours come from classes of rooms.css, never from style attributes.

import { makeSvg } from "./request.js";

const WIDTH = 420;
const MARGIN = { left: 46, right: 12, top: 24, bottom: 38 };
const MARKS = ["M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0", "M-5,-5h10v10h-10z", "M0,-6l6,11h-12z"]; // circle, square, triangle: one per class
let planeCount = 0;

/** Return about `count` numbers at which an axis has ticks: multiples of 1, 2 or 5 times a power of ten. */
export function findTicks(low, high, count = 6) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const ticks = [];
  for (let number = Math.ceil(low / step - 1e-9); number * step <= high + step * 1e-9; number += 1) {
    ticks.push(Number((number * step).toPrecision(12)) + 0); // never -0
  }
  return ticks;
}

/** Return the least and the largest of the numbers, with a margin; nulls are left out. */
export function findRange(numbers, least = 1e-6) {
  const finite = numbers.filter((number) => number !== null && Number.isFinite(number));
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  const margin = Math.max(0.06 * (high - low), least);
  return finite.length ? [low - margin, high + margin] : [0, 1];
}

export class Plane {
  constructor(host, { x, y, xName = "x", yName = "y", height = WIDTH, ticks = null }) {
    planeCount += 1;
    this.x = x;
    this.y = y;
    this.names = [xName, yName];
    this.height = height;
    this.ticks = ticks; // of the x axis: pairs of number and text; null for the default
    this.svg = makeSvg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img" });
    const clip = makeSvg("clipPath", { id: `inside-${planeCount}` });
    clip.append(makeSvg("rect", this.#inside()));
    this.axes = makeSvg("g", { class: "axes", "aria-hidden": "true" });
    this.drawing = makeSvg("g", { "clip-path": `url(#inside-${planeCount})`, "aria-hidden": "true" });
    this.marks = makeSvg("g", { "aria-hidden": "true" });
    this.svg.append(clip, this.axes, this.drawing, this.marks);
    host.replaceChildren(this.svg);
    this.#drawAxes();
  }

  /** Set the text that a screen reader says for the picture. */
  describe(text) {
    this.svg.setAttribute("aria-label", text);
  }

  /** Begin a new picture, with other ranges if they are given. */
  clear(x = this.x, y = this.y) {
    this.x = x;
    this.y = y;
    this.drawing.replaceChildren();
    this.marks.replaceChildren();
    this.#drawAxes();
  }

  /** Return the coordinates of a point in the picture. */
  toScreen([x, y]) {
    const inside = this.#inside();
    return [
      inside.x + ((x - this.x[0]) / (this.x[1] - this.x[0])) * inside.width,
      inside.y + (1 - (y - this.y[0]) / (this.y[1] - this.y[0])) * inside.height,
    ];
  }

  /** Return the coordinates of a pointer, or null if it is outside the axes. */
  fromPointer(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(
      this.svg.getScreenCTM().inverse(),
    );
    const inside = this.#inside();
    const across = (point.x - inside.x) / inside.width;
    const up = 1 - (point.y - inside.y) / inside.height;
    if (across < 0 || across > 1 || up < 0 || up > 1) {
      return null;
    }
    return [
      round(this.x[0] + across * (this.x[1] - this.x[0])),
      round(this.y[0] + up * (this.y[1] - this.y[0])),
    ];
  }

  /** Draw a line through points; a null among the heights interrupts it. */
  curve(xs, ys, className) {
    const parts = [];
    let isOpen = false;
    xs.forEach((x, k) => {
      if (ys[k] === null) {
        isOpen = false;
        return;
      }
      parts.push(`${isOpen ? "L" : "M"}${this.#pair([x, ys[k]])}`);
      isOpen = true;
    });
    this.drawing.append(makeSvg("path", { d: parts.join(""), class: `curve ${className}` }));
  }

  /** Draw line segments, each of two points. */
  segments(pairs, className) {
    const d = pairs.map(([from, to]) => `M${this.#pair(from)}L${this.#pair(to)}`).join("");
    this.drawing.append(makeSvg("path", { d, class: `curve ${className}` }));
  }

  /** Fill the area between two curves. */
  band(xs, low, high, className) {
    const outline = [...xs.map((x, k) => [x, high[k]]), ...xs.map((x, k) => [x, low[k]]).reverse()];
    this.polygon(outline, `band ${className}`);
  }

  polygon(corners, className) {
    this.drawing.append(
      makeSvg("polygon", { points: corners.map((corner) => this.#pair(corner)).join(" "), class: className }),
    );
  }

  /** Draw a bar from zero at each x. */
  bars(xs, heights, className) {
    const half = 0.4 * (xs.length > 1 ? xs[1] - xs[0] : 1);
    const floor = Math.max(this.y[0], Math.min(0, this.y[1]));
    xs.forEach((x, k) => {
      const corners = [[x - half, floor], [x - half, heights[k]], [x + half, heights[k]], [x + half, floor]];
      this.polygon(corners, `bar ${className}`);
    });
  }

  vertical(x, className) {
    this.curve([x, x], this.y, className);
  }

  dot(point, className) {
    const [cx, cy] = this.toScreen(point);
    this.drawing.append(makeSvg("circle", { cx, cy, r: 5, class: className }));
  }

  /** Draw size × size cells over the whole plane, row after row from the lower left; `colour(index)` returns
   * red, green, blue and opacity, each from 0 to 255. */
  cells(size, colour) {
    const canvas = document.createElement("canvas");
    canvas.width = size;
    canvas.height = size;
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(size, size);
    for (let row = 0; row < size; row += 1) {
      for (let column = 0; column < size; column += 1) {
        const start = 4 * ((size - 1 - row) * size + column);
        pixels.data.set(colour(row * size + column), start);
      }
    }
    context.putImageData(pixels, 0, 0);
    const place = { ...this.#inside(), preserveAspectRatio: "none", class: "cells" };
    this.drawing.append(makeSvg("image", { href: canvas.toDataURL(), ...place }));
  }

  /** Draw points; `look(index)` returns { mark, className, fill }: the index of the mark, and a colour or null. */
  points(points, look) {
    points.forEach((point, index) => {
      const { mark = 0, className = "", fill = null } = look(index);
      const [x, y] = this.toScreen(point);
      const group = makeSvg("g", { transform: `translate(${x},${y})`, class: "point", "data-index": index });
      group.append(makeSvg("circle", { r: 13, class: "reach" })); // invisible; makes the point easier to hit
      const visible = makeSvg("path", { d: MARKS[mark % MARKS.length], class: `mark ${className}` });
      if (fill !== null) {
        visible.setAttribute("fill", fill);
      }
      group.append(visible);
      this.marks.append(group);
    });
  }

  #pair(point) {
    return this.toScreen(point).map((number) => number.toFixed(2)).join(",");
  }

  #inside() {
    return {
      x: MARGIN.left,
      y: MARGIN.top,
      width: WIDTH - MARGIN.left - MARGIN.right,
      height: this.height - MARGIN.top - MARGIN.bottom,
    };
  }

  #drawAxes() {
    const inside = this.#inside();
    const parts = [makeSvg("rect", { ...inside, class: "frame" })];
    const texts = this.ticks ?? findTicks(...this.x).map((tick) => [tick, String(tick)]);
    for (const [tick, words] of texts) {
      const [x] = this.toScreen([tick, 0]);
      parts.push(text(words, { x, y: this.height - MARGIN.bottom + 16, "text-anchor": "middle" }));
    }
    for (const tick of findTicks(...this.y)) {
      const [, y] = this.toScreen([0, tick]);
      parts.push(text(String(tick), { x: MARGIN.left - 6, y: y + 4, "text-anchor": "end" }));
    }
    parts.push(
      text(this.names[0], { x: inside.x + inside.width / 2, y: this.height - 4, "text-anchor": "middle" }),
      text(this.names[1], { x: 2, y: 13 }),
    );
    this.axes.replaceChildren(...parts);
  }
}

/** Lets a person add, move and remove the points of a plane. */
export class PointEditor {
  #cursor;
  #picked = null;
  #dragged = null;

  /** `points` has all(), add(point), move(index, point), remove(index) and describe(index). */
  constructor(plane, points, say) {
    this.plane = plane;
    this.points = points;
    this.say = say;
    this.#cursor = [(plane.x[0] + plane.x[1]) / 2, (plane.y[0] + plane.y[1]) / 2];
    const svg = plane.svg;
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "application");
    svg.setAttribute("aria-roledescription", "plane of points");
    svg.setAttribute("aria-describedby", `${svg.parentElement.id}-help`);
    svg.classList.add("edited");
    svg.addEventListener("click", (event) => this.#click(event));
    svg.addEventListener("pointerdown", (event) => this.#press(event));
    svg.addEventListener("pointermove", (event) => this.#drag(event));
    svg.addEventListener("pointerup", () => this.#release());
    svg.addEventListener("pointercancel", () => this.#release());
    svg.addEventListener("keydown", (event) => this.#key(event));
    svg.addEventListener("focus", () => this.draw());
    svg.addEventListener("blur", () => this.draw());
  }

  /** Draw the cursor and the ring of the picked point over a picture that was just drawn. */
  draw() {
    this.plane.marks.querySelectorAll(".cursor, .picked").forEach((old) => old.remove());
    if (this.#picked !== null && this.#picked >= this.points.all().length) {
      this.#picked = null;
    }
    if (this.#picked !== null) {
      const [cx, cy] = this.plane.toScreen(this.points.all()[this.#picked]);
      this.plane.marks.append(makeSvg("circle", { cx, cy, r: 10, class: "picked" }));
    } else if (this.plane.svg.matches(":focus-visible")) {
      const [x, y] = this.plane.toScreen(this.#cursor);
      this.plane.marks.append(makeSvg("path", { d: `M${x - 9},${y}h18M${x},${y - 9}v18`, class: "cursor" }));
    }
  }

  /** Remove the picked point, or the last one if none is picked. */
  removePicked() {
    const index = this.#picked ?? this.points.all().length - 1;
    if (index >= 0) {
      this.#picked = null;
      this.points.remove(index);
      this.say(`Removed; ${this.points.all().length} points are left`);
    }
  }

  #click(event) {
    if (this.#dragged !== null) {
      this.#dragged = null;
      return;
    }
    const point = this.plane.fromPointer(event);
    if (point !== null) {
      this.#picked = null;
      this.points.add(point);
    }
  }

  #press(event) {
    const group = event.target.closest(".point");
    if (group === null) {
      this.#dragged = null;
      return;
    }
    const index = Number(group.dataset.index);
    this.#dragged = { index, isHeld: !event.shiftKey };
    if (event.shiftKey) {
      this.#picked = index;
      this.removePicked();
      return;
    }
    this.#picked = index;
    this.plane.svg.setPointerCapture(event.pointerId);
    this.draw();
  }

  #drag(event) {
    const point = this.#dragged?.isHeld ? this.plane.fromPointer(event) : null;
    if (point !== null) {
      this.points.move(this.#dragged.index, point);
    }
  }

  #release() {
    if (this.#dragged !== null) {
      this.#dragged.isHeld = false; // the click that follows adds no point
    }
  }

  #key(event) {
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (event.ctrlKey || event.altKey || event.metaKey) {
      return;
    }
    if (event.key in arrows) {
      this.#step(arrows[event.key], event.shiftKey ? 0.1 : 0.02);
    } else if (event.key === "Enter" || event.key === " ") {
      this.points.add([...this.#cursor]);
      this.say(`Point added at ${this.#cursor.join(", ")}`);
    } else if (event.key === "n" || event.key === "p") {
      this.#pick(event.key === "n" ? 1 : -1);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      this.removePicked();
    } else if (event.key === "Escape" && this.#picked !== null) {
      this.#picked = null;
      this.say("No point is picked");
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    this.draw();
  }

  #step([across, up], share) {
    const { x, y } = this.plane;
    const from = this.#picked === null ? this.#cursor : this.points.all()[this.#picked];
    const to = [
      round(Math.min(Math.max(from[0] + across * share * (x[1] - x[0]), x[0]), x[1])),
      round(Math.min(Math.max(from[1] + up * share * (y[1] - y[0]), y[0]), y[1])),
    ];
    if (this.#picked === null) {
      this.#cursor = to;
      this.say(`Cursor at ${to.join(", ")}`);
    } else {
      this.points.move(this.#picked, to);
      this.say(`Point ${this.#picked + 1} at ${to.join(", ")}`);
    }
  }

  #pick(direction) {
    const count = this.points.all().length;
    if (count) {
      const from = this.#picked ?? (direction > 0 ? -1 : count);
      this.#picked = (from + direction + count) % count;
      this.say(`Picked ${this.points.describe(this.#picked)}`);
    }
  }
}

function round(number) {
  return Number(number.toFixed(3));
}

function text(words, attributes) {
  return makeSvg("text", attributes, words);
}
