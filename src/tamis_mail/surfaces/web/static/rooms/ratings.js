// A table of ratings, completed entry by entry.

import { element } from "../request.js";
import { Plane } from "../plane.js";
import { Room, bindSteps, find, format, onPress, say } from "../room.js";

const MAX_SWEEPS = 50;
const errors = new Plane(find("errors"), {
  x: [0, 10],
  y: [0, 2],
  xName: "sweeps",
  yName: "error (stars)",
  height: 280,
});
const growth = new Plane(find("growth"), {
  x: [0, 64],
  y: [0, 2],
  xName: "known entries",
  yName: "error (stars)",
  height: 280,
});
let current = [0, 0]; // user and item of the entry that has the keyboard focus

const room = new Room((answer, fields) => {
  drawTable(answer, fields);
  find("known-count").textContent = `${fields.known?.length ?? 0} known, ${fields.hidden?.length ?? 0} hidden`;
  find("reveal").disabled = !fields.hidden?.length;
  find("hide").disabled = !fields.known?.length;
  steps.finish();
  errors.clear();
  growth.clear();
  if (answer !== null) {
    const numbers = answer.known_errors.map((_, sweep) => sweep);
    const highest = Math.max(0.5, ...answer.known_errors, ...answer.hidden_errors);
    errors.clear([-0.5, Math.max(answer.step, 9) + 0.5], [0, 1.1 * highest]);
    errors.curve(numbers, answer.known_errors, "class-1 dashed");
    errors.curve(numbers, answer.hidden_errors, "class-0");
    numbers.forEach((sweep) => {
      errors.dot([sweep, answer.known_errors[sweep]], "dot class-1");
      if (answer.hidden_errors[sweep] !== null) {
        errors.dot([sweep, answer.hidden_errors[sweep]], "dot class-0");
      }
    });
    errors.describe(answer.text.join(" "));
    drawGrowth(answer);
  }
});
const steps = bindSteps(room, {
  maxStep: MAX_SWEEPS,
  isDone: ({ objectives, step }) => step > 0 && objectives[step - 1] - objectives[step] < 1e-4 * objectives[step],
});

function drawGrowth({ known_counts: counts, errors_by_count: heights }) {
  if (heights[0] === null) {
    growth.describe("No entry is hidden, so that there is no error.");
    return;
  }
  growth.clear([0, counts.at(-1) + 1], [0, 1.1 * Math.max(...heights)]);
  growth.curve(counts, heights, "class-0");
  counts.forEach((count, k) => growth.dot([count, heights[k]], "dot class-0"));
  growth.describe(
    `With ${counts[0]} known entry the error of the hidden ones is ${heights[0].toFixed(2)} stars, with ` +
      `${counts.at(-1)} it is ${heights.at(-1).toFixed(2)}.`,
  );
}

/** Return whether the entry of a cell is known or hidden, and its index among those. */
function locate(user, item) {
  for (const kind of ["known", "hidden"]) {
    const index = room.fields[kind].findIndex((entry) => entry[0] === user && entry[1] === item);
    if (index >= 0) {
      return [kind, index];
    }
  }
  return [null, -1];
}

/** Make a known entry hidden, or a hidden one known. */
function toggleEntry(kind, index, rating = null) {
  const other = kind === "known" ? "hidden" : "known";
  const [user, item, value] = room.fields[kind][index];
  room.set({
    [kind]: room.fields[kind].filter((_, k) => k !== index),
    [other]: [...room.fields[other], [user, item, rating ?? value]],
  });
  say(`${nameCell(user, item)} is ${other}`);
}

function setRating(user, item, rating) {
  const [kind, index] = locate(user, item);
  if (kind === "hidden") {
    toggleEntry(kind, index, rating);
  } else {
    const known = room.fields.known.map((entry, k) => (k === index ? [user, item, rating] : entry));
    room.set({ known });
  }
}

function nameCell(user, item) {
  return `User ${user + 1}, film ${String.fromCharCode(65 + item)}`;
}

function drawTable(answer, { users = 0, items = 0 }) {
  const table = find("ratings");
  const hadFocus = table.contains(document.activeElement);
  const names = [...Array(items).keys()].map((item) => String.fromCharCode(65 + item));
  table.tHead.replaceChildren(
    element("tr", {}, element("td"), ...names.map((name) => makeHeading("col", "Film", name))),
  );
  table.tBodies[0].replaceChildren(
    ...[...Array(users).keys()].map((user) =>
      element(
        "tr",
        {},
        makeHeading("row", "User", String(user + 1)),
        ...names.map((_, item) => element("td", {}, makeCell(answer, user, item))),
      ),
    ),
  );
  if (hadFocus) {
    findCell(...current).focus();
  }
}

/** Make a heading of which only the name is visible, and the kind is for screen readers. */
function makeHeading(scope, kind, name) {
  return element("th", { scope }, element("span", { class: "hidden-visually" }, `${kind} `), name);
}

function makeCell(answer, user, item) {
  const [kind, index] = locate(user, item);
  const value = room.fields[kind][index][2];
  const predicted = answer === null ? "–" : format(answer.predicted[user][item], 1);
  const words =
    kind === "known" ? `known, ${value} stars` : `hidden, predicted ${predicted}, true rating ${value}`;
  const isCurrent = user === current[0] && item === current[1];
  const cell = element(
    "button",
    {
      type: "button",
      class: kind,
      "data-user": user,
      "data-item": item,
      tabindex: isCurrent ? "0" : "-1",
      "aria-label": `${nameCell(user, item)}: ${words}`,
    },
    ...(kind === "known" ? [String(value)] : [predicted, element("small", {}, `(${value})`)]),
  );
  return cell;
}

function findCell(user, item) {
  return find("ratings").querySelector(`[data-user="${user}"][data-item="${item}"]`);
}

find("ratings").addEventListener("click", (event) => {
  const cell = event.target.closest("button");
  if (cell !== null) {
    current = [Number(cell.dataset.user), Number(cell.dataset.item)];
    toggleEntry(...locate(...current));
  }
});

find("ratings").addEventListener("keydown", (event) => {
  const arrows = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  if (event.key in arrows) {
    const [down, across] = arrows[event.key];
    const { users, items } = room.fields;
    findCell(...current).tabIndex = -1;
    current = [
      Math.min(Math.max(current[0] + down, 0), users - 1),
      Math.min(Math.max(current[1] + across, 0), items - 1),
    ];
    const cell = findCell(...current);
    cell.tabIndex = 0;
    cell.focus();
    event.preventDefault();
  } else if (/^[1-5]$/.test(event.key)) {
    setRating(...current, Number(event.key));
    event.preventDefault();
  }
});

onPress("reveal", () => toggleEntry("hidden", Math.floor(Math.random() * room.fields.hidden.length)));
onPress("hide", () => toggleEntry("known", room.fields.known.length - 1));
onPress("example", () => room.set(structuredClone(room.example)));
room.open();
