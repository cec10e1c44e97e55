// One room, an interactive demonstration of a model: controls and points change the fields of its request, the
// server computes each change, and the last answer is drawn. While a request is under way, further changes are
// joined to one request that follows it.

import { element, get, post } from "./request.js";
import { PointEditor } from "./plane.js";

const box = document.getElementById("room");
const controls = document.getElementById("controls");

/** Make a screen reader say a sentence. */
export function say(sentence) {
  document.getElementById("said").textContent = sentence;
}

/** Return the element with an id. */
export function find(id) {
  return document.getElementById(id);
}

/** Call a function when a button is pressed. */
export function onPress(id, work) {
  find(id).addEventListener("click", work);
}

/** Fill the body of a table with rows of cells; the first cell of each row is its heading. */
export function fillTable(id, rows, numbersFrom = 1) {
  find(id).replaceChildren(
    ...rows.map((cells) =>
      element(
        "tr",
        {},
        ...cells.map((cell, k) => {
          const attributes = k >= numbersFrom && typeof cell === "string" ? { class: "number" } : {};
          return k ? element("td", attributes, cell) : element("th", { scope: "row", ...attributes }, cell);
        }),
      ),
    ),
  );
}

/** Format a number with some digits; a dash stands for a missing number. */
export function format(number, digits = 3) {
  return number === null || number === undefined ? "–" : number.toFixed(digits);
}

export class Room {
  #draw;
  #isWaiting = false;
  #isStale = false;

  /** `draw(answer, fields)` draws an answer of the server; it is null after an error. */
  constructor(draw) {
    this.#draw = draw;
    this.fields = {};
    this.answer = null;
  }

  /** Load the example, bind the controls, and compute; `prepare` changes the fields of the example first. */
  async open(prepare = () => {}) {
    try {
      this.example = await get(`/rooms/${box.dataset.name}/example`);
    } catch (error) {
      this.#fail(error);
      return;
    }
    this.fields = structuredClone(this.example);
    prepare(this.fields);
    for (const control of controls.elements) {
      if (control.name in this.fields) {
        this.#show(control);
        control.addEventListener("input", () => this.#change(control));
      }
    }
    controls.addEventListener("submit", (event) => event.preventDefault());
    // Colours of points are computed from those of the page.
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    await this.update();
  }

  /** Set fields, show them in their controls, and compute. */
  set(changes) {
    Object.assign(this.fields, changes);
    for (const control of controls.elements) {
      if (control.name in changes) {
        this.#show(control);
      }
    }
    return this.update();
  }

  /** Compute the present fields; while an answer is under way, only the last change is sent after it. */
  async update() {
    this.#isStale = true;
    if (this.#isWaiting) {
      return;
    }
    this.#isWaiting = true;
    box.setAttribute("aria-busy", "true");
    while (this.#isStale) {
      this.#isStale = false;
      try {
        this.answer = await post(`/rooms/${box.dataset.name}`, this.fields);
        find("fault").textContent = "";
        find("numbers").replaceChildren(...this.answer.text.map((line) => element("p", {}, line)));
        this.redraw();
      } catch (error) {
        this.#fail(error);
      }
    }
    this.#isWaiting = false;
    box.setAttribute("aria-busy", "false");
  }

  redraw() {
    if (this.answer !== null) {
      this.#draw(this.answer, this.fields);
    }
  }

  #fail(error) {
    const { message } = error;
    find("fault").textContent = `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
    this.answer = null;
    find("numbers").replaceChildren(element("p", { class: "quiet" }, "There is nothing to compute."));
    this.#draw(null, this.fields);
  }

  #change(control) {
    const { name, type, dataset } = control;
    let { value } = control;
    if (type === "checkbox") {
      value = control.checked;
    } else if (type === "range") {
      value = dataset.scale === "log10" ? Number((10 ** Number(value)).toPrecision(3)) : Number(value);
    }
    this.fields[name] = value;
    this.#show(control, false);
    box.dispatchEvent(new CustomEvent("control", { detail: name }));
    this.update();
  }

  #show(control, setsControl = true) {
    const value = this.fields[control.name];
    if (control.type === "checkbox") {
      control.checked = value;
    } else if (setsControl) {
      control.value = control.dataset.scale === "log10" ? Math.log10(value) : value;
    }
    if (control.type === "range") {
      const words = String(Number(value.toPrecision(3)));
      find(`${control.name}-value`).textContent = words;
      control.setAttribute("aria-valuetext", words);
    }
  }
}

/** Let a person edit the points of a room in a plane, in a table, and by buttons.
 *
 * A room with classes passes their names and a function that returns the class of the next point; `replaced` is
 * called before all points are replaced.
 */
export function editPoints(room, plane, { classes = null, chosenClass = () => 0, replaced = () => {} } = {}) {
  const change = (points, labels) => {
    room.set(classes === null ? { points } : { points, labels });
  };
  const points = {
    all: () => room.fields.points ?? [],
    add(point) {
      change([...points.all(), point], [...(room.fields.labels ?? []), chosenClass()]);
    },
    move(index, point) {
      change(points.all().map((old, k) => (k === index ? point : old)), room.fields.labels);
    },
    remove(index) {
      const keep = (_, k) => k !== index;
      change(points.all().filter(keep), (room.fields.labels ?? []).filter(keep));
    },
    describe(index) {
      const [x, y] = points.all()[index];
      const name = classes === null ? "" : ` of class ${classes[room.fields.labels[index]]}`;
      return `point ${index + 1}${name} at ${x}, ${y}`;
    },
  };
  const editor = new PointEditor(plane, points, say);
  onPress("remove-point", () => editor.removePicked());
  onPress("clear-points", () => {
    replaced();
    change([], []);
  });
  onPress("example-points", () => {
    replaced();
    change(room.example.points, room.example.labels);
  });
  onPress("add-point", () => {
    const values = ["new-x", "new-y"].map((id) => find(id).valueAsNumber);
    if (values.every(Number.isFinite)) {
      points.add(values);
      say(`Point added at ${values.join(", ")}`);
    } else {
      find("fault").textContent = "A point needs two numbers: fill in x and y.";
    }
  });
  return {
    points,
    editor,
    /** Draw the ring of the picked point, the cursor and the table, after a picture was drawn. */
    finish() {
      editor.draw();
      const count = points.all().length;
      plane.describe(`Plane of ${count} ${count === 1 ? "point" : "points"}. ${room.answer?.text[0] ?? ""}`);
      fillTable(
        "point-rows",
        points.all().map(([x, y], index) => {
          const button = element("button", { type: "button", "aria-label": `Remove point ${index + 1}` }, "Remove");
          button.addEventListener("click", () => points.remove(index));
          const cells = [String(index + 1), String(x), String(y)];
          return classes === null ? [...cells, button] : [...cells, classes[room.fields.labels[index]], button];
        }),
      );
    },
  };
}

/** Bind the buttons that go through the steps of an iteration, whose number is the field `step`. */
export function bindSteps(room, { maxStep, isDone = () => false }) {
  let isRunning = false;
  const run = find("step-run");
  const stop = () => {
    isRunning = false;
    run.textContent = "Run";
    run.setAttribute("aria-pressed", "false");
  };
  const go = (step) => room.set({ step: Math.min(Math.max(step, 0), maxStep) });
  onPress("step-reset", () => {
    stop();
    go(0);
  });
  onPress("step-back", () => {
    stop();
    go(room.fields.step - 1);
  });
  onPress("step-forward", () => {
    stop();
    go(room.fields.step + 1);
  });
  run.addEventListener("click", async () => {
    if (isRunning) {
      stop();
      return;
    }
    isRunning = true;
    run.textContent = "Stop";
    run.setAttribute("aria-pressed", "true");
    while (isRunning && room.answer !== null && room.fields.step < maxStep && !isDone(room.answer)) {
      await go(room.fields.step + 1);
      await new Promise((resolve) => setTimeout(resolve, 120));
    }
    stop();
  });
  return {
    /** Show the number of the step, and which buttons can be pressed. */
    finish() {
      const { step } = room.fields;
      find("step-number").textContent = `Step ${step}`;
      find("step-back").disabled = step === 0;
      find("step-forward").disabled = step >= maxStep;
    },
    stop,
  };
}

/** Return the red, green and blue of a class of rooms.css. */
export function readColour(index) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(`--class-${index}`).trim();
  return [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
}
