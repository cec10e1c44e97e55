// A curve of Gaussian basis functions, and the evidence of each number of functions.

import { Plane, findRange } from "../plane.js";
import { Room, editPoints, find } from "../room.js";

const data = new Plane(find("data"), { x: [0, 1], y: [-2, 2] });
const evidence = new Plane(find("evidence"), {
  x: [0, 21],
  y: [-10, 0],
  xName: "basis functions",
  yName: "log-evidence",
  height: 280,
});

const room = new Room((answer, fields) => {
  const points = fields.points ?? [];
  data.clear();
  for (const name of ["alpha", "noise"]) {
    const value = fields.by_evidence && answer !== null ? answer[name] : fields[name];
    find(name).disabled = Boolean(fields.by_evidence);
    find(`${name}-value`).textContent = value === undefined ? "" : String(Number(value.toPrecision(3)));
  }
  if (answer !== null) {
    data.band(answer.places, answer.low, answer.high, "class-0");
    for (const part of answer.parts) {
      data.curve(answer.places, part, "class-2 thin dashed");
    }
    for (const drawn of answer.functions) {
      data.curve(answer.places, drawn, "class-0 thin");
    }
    data.curve(answer.places, answer.mean, "class-0");
    evidence.clear([0, answer.numbers.length + 1], findRange(answer.evidences, 0.5));
    evidence.curve(answer.numbers, answer.evidences, "class-0");
    answer.numbers.forEach((number, k) => {
      evidence.dot([number, answer.evidences[k]], `dot class-${number === fields.functions ? 1 : 0}`);
    });
    const best = answer.evidences[answer.best_number - 1];
    evidence.describe(
      `The log-evidence is largest, ${best.toFixed(3)}, with ${answer.best_number} basis functions.`,
    );
  }
  data.points(points, () => ({ className: "plain" }));
  finish();
});
const { finish } = editPoints(room, data);
room.open();
