// EM, step by step: responsibilities, components, the objective and its lower bound.

import { Plane, findRange } from "../plane.js";
import { Room, bindSteps, editPoints, find, readColour } from "../room.js";

const MAX_STEPS = 100;
const data = new Plane(find("data"), { x: [0, 10], y: [0, 10] });
const objective = new Plane(find("objective"), {
  x: [0, 10],
  y: [0, 1],
  xName: "steps",
  yName: "objective",
  height: 280,
});
const bound = new Plane(find("bound"), {
  x: [-0.5, 1.5],
  y: [0, 1],
  xName: "part of the next step",
  yName: "objective and bound",
  height: 280,
});

const room = new Room((answer, fields) => {
  const points = fields.points ?? [];
  data.clear();
  objective.clear();
  bound.clear();
  if (answer === null) {
    data.points(points, () => ({ className: "plain" }));
  } else {
    drawMixture(answer, points);
    drawPath(answer);
    drawBound(answer);
  }
  editing.finish();
  steps.finish();
});
const editing = editPoints(room, data, { replaced: () => steps.stop() });
const steps = bindSteps(room, { maxStep: MAX_STEPS, isDone: (answer) => answer.converged });

function drawMixture(answer, points) {
  const colours = answer.weights.map((_, k) => readColour(k));
  answer.ellipses.forEach((pair, k) => {
    pair.forEach((ellipse, deviations) =>
      data.polygon(ellipse, `ring class-${k} ${deviations ? "second" : ""}`),
    );
  });
  // Until the next answer comes, there may be more points than responsibilities.
  data.points(points, (index) => {
    const r = answer.responsibilities[index];
    if (r === undefined) {
      return { className: "plain" };
    }
    const mixed = [0, 1, 2].map((c) => Math.round(colours.reduce((sum, colour, k) => sum + r[k] * colour[c], 0)));
    return { mark: r.indexOf(Math.max(...r)), fill: `rgb(${mixed.join(",")})` };
  });
}

function drawPath(answer) {
  const numbers = answer.objectives.map((_, step) => step);
  objective.clear([-0.5, Math.max(answer.step, 9) + 0.5], findRange(answer.objectives, 0.5));
  objective.curve(numbers, answer.objectives, "class-0");
  numbers.forEach((step) => objective.dot([step, answer.objectives[step]], "dot class-0"));
  answer.bounds.forEach((height, step) => objective.dot([step + 1, height], "dot class-1"));
  objective.describe(
    `The objective goes from ${answer.objectives[0].toFixed(2)} to ` +
      `${answer.objectives.at(-1).toFixed(2)} in ${answer.step} steps and never falls.`,
  );
}

function drawBound(answer) {
  const { along, objective: heights, bound: boundHeights, bound_reached: top, reached } = answer.next;
  bound.clear([along[0], along.at(-1)], findRange([...heights, ...boundHeights], 0.01));
  bound.curve(along, heights, "class-0");
  bound.curve(along, boundHeights, "class-1 dashed");
  bound.dot([0, answer.objectives.at(-1)], "dot class-0");
  bound.dot([1, top], "dot class-1");
  bound.dot([1, reached], "dot class-0");
  bound.describe(
    `The bound touches the objective at the present parameters, at ${answer.objectives.at(-1).toFixed(3)}, and ` +
      `is largest after the next step, at ${top.toFixed(3)}, where the objective is ${reached.toFixed(3)}.`,
  );
}

room.open();
