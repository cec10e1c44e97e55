// A straight line, point by point: its points, and the distribution of level and slope.

import { Plane } from "../plane.js";
import { Room, editPoints, find, onPress } from "../room.js";

const data = new Plane(find("data"), { x: [-1, 1], y: [-1, 1] });
const weights = new Plane(find("weights"), { x: [-2, 2], y: [-2, 2], xName: "level", yName: "slope" });
let used = 3; // of the points, from the first on

const room = new Room(
  (answer, fields) => {
    const points = fields.points ?? [];
    const count = Math.min(used, points.length);
    find("used").textContent = `${count} of ${points.length} points`;
    find("fewer").disabled = count === 0;
    find("further").disabled = count === points.length;
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
      answer.weights.ellipses.forEach((ellipse, k) =>
        weights.polygon(ellipse, `ring class-0 ${k ? "second" : ""}`),
      );
      weights.dot(answer.weights.mean, "dot class-0");
      weights.describe(answer.text[0]);
    }
    data.points(points.slice(0, count), () => ({ className: "plain" }));
    finish();
  },
  (fields) => ({ ...fields, points: (fields.points ?? []).slice(0, used) }),
);
// A point that is added or removed changes the points that are used; those that were not yet used are dropped.
const { finish } = editPoints(room, data, { changed: (points) => (used = points.length) });

function use(count) {
  used = Math.min(Math.max(count, 0), room.fields.points.length);
  room.update();
}

onPress("further", () => use(used + 1));
onPress("fewer", () => use(used - 1));
onPress("none", () => use(0));
room.open();
