// Boundaries between Gaussian classes, by the form of their covariances.

import { Plane } from "../plane.js";
import { Room, editPoints, fillTable, find, format, readColour, say } from "../room.js";

const CLASSES = ["A", "B", "C"];
const data = new Plane(find("data"), { x: [0, 10], y: [0, 10] });
const radios = [...document.querySelectorAll("input[name=class]")];
const chosenClass = () => Number(radios.find((radio) => radio.checked).value);

const room = new Room((answer, fields) => {
  const { points = [], labels = [] } = fields;
  data.clear();
  if (answer !== null) {
    const colours = CLASSES.map((_, k) => readColour(k));
    data.cells(answer.cells, (cell) => {
      // From 0, if three classes are equally probable, to 1, if one is certain.
      const certainty = Math.max(0, (answer.probability[cell] - 1 / 3) * 1.5);
      return [...colours[answer.winner[cell]], Math.round(20 + 70 * certainty)];
    });
    data.segments(answer.boundaries, "");
    answer.ellipses.forEach((pair, k) => {
      pair.forEach((ellipse, deviations) =>
        data.polygon(ellipse, `ring class-${answer.classes[k]} ${deviations ? "second" : ""}`),
      );
    });
  }
  fillTable(
    "form-rows",
    Object.entries(answer?.forms ?? {}).map(([form, { right, right_held_out: heldOut, log_evidence: evidence }]) => [
      form === fields.covariance ? `${form} (shown)` : form,
      `${format(100 * right, 1)} %`,
      heldOut === null ? "–" : `${format(100 * heldOut, 1)} %`,
      format(evidence, 2),
    ]),
  );
  data.points(points, (index) => ({ mark: labels[index], className: `class-${labels[index]}` }));
  finish();
});
const { finish } = editPoints(room, data, { classes: CLASSES, chosenClass });

data.svg.addEventListener("keydown", (event) => {
  const index = Number(event.key) - 1;
  if (index in CLASSES) {
    radios[index].checked = true;
    say(`The next point is of class ${CLASSES[index]}`);
  }
});
room.open();
