// Naive Bayes against logistic regression on growing samples.

import { Plane } from "../plane.js";
import { Room, fillTable, find, format } from "../room.js";

const TICKS = [10, 30, 100, 300, 1000];
const curves = new Plane(find("curves"), {
  x: [Math.log10(9), Math.log10(1100)],
  y: [0, 0.5],
  xName: "messages learned",
  yName: "error rate",
  ticks: TICKS.map((size) => [Math.log10(size), String(size)]),
});

const room = new Room((answer) => {
  if (answer === null) {
    curves.clear();
    fillTable("curve-rows", []);
    return;
  }
  const xs = answer.sizes.map(Math.log10);
  curves.clear(undefined, [0, 1.08 * Math.max(0.1, ...answer.curves.flatMap((curve) => curve.high))]);
  answer.curves.forEach((curve, k) => {
    curves.band(xs, curve.low, curve.high, `class-${k}`);
    curves.curve(xs, curve.mean, `class-${k}${k ? " dashed" : ""}`);
    curve.mean.forEach((height, i) => curves.dot([xs[i], height], `dot class-${k}`));
  });
  if (answer.crossing !== null) {
    curves.vertical(Math.log10(answer.crossing), "quiet dotted");
  }
  curves.describe(answer.text.join(" "));
  fillTable(
    "curve-rows",
    answer.sizes.map((size, i) => [String(size), ...answer.curves.map((curve) => `${format(100 * curve.mean[i], 1)} %`)]),
    0,
  );
});
room.open();
