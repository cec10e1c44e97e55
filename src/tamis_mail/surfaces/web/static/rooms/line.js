// A straight line, point by point: its points, and the distribution of level and slope.

import { Plane } from "../plane.js";
import { Room, editPoints, find, onPress } from "../room.js";

const data = new Plane(find("data"), { x: [-1, 1], y: [-1, 1] });
const weights = new Plane(find("weights"), { x: [-2, 2], y: [-2, 2], xName: "level", yName: "slope" });
const FIRST = 3; // points that are used at the start
let later = []; // points that are not used yet

const room = new Room((answer, fields) => {
  const points = fields.points ?? [];
  find("used").textContent = `${points.length} of ${points.length + later.length} points`;
  find("fewer").disabled = points.length === 0;
  find("further").disabled = later.length === 0;
  data.clear();
  weights.clear();
  if (answer !== null) {
    data.band(answer.places, answer.low, answer.high, "class-0");
    for (const line of answer.functions) {
      data.curve(answer.places, line, "class-0 thin");
    }
    data.curve(answer.places, answer.mean, "class-0");
    if (answer.weights.last_likelihood !== null) {
      weights.polygon(answer.weights.last_likelihood, "stripe");
    }
    answer.weights.ellipses.forEach((ellipse, k) => {
      weights.polygon(ellipse, `ring class-0 ${k ? "second" : ""}`);
    });
    weights.dot(answer.weights.mean, "dot class-0");
    weights.describe(answer.text[0]);
  }
  data.points(points, () => ({ className: "plain" }));
  finish();
});
const { finish } = editPoints(room, data, { replaced: () => (later = []) });

/** Use the first `count` of all points. */
function use(count) {
  const all = [...room.fields.points, ...later];
  later = all.slice(count);
  room.set({ points: all.slice(0, count) });
}

onPress("further", () => use(room.fields.points.length + 1));
onPress("fewer", () => use(room.fields.points.length - 1));
onPress("none", () => use(0));
room.open((fields) => {
  later = fields.points.splice(FIRST);
});
