// A coin, toss by toss: densities of its probability of heads, and the next tosses.

import { Plane } from "../plane.js";
import { Room, find, onPress, say } from "../room.js";

const HIGHEST = 12; // end of the axis of the density, because a density may be infinite
const densities = new Plane(find("densities"), {
  x: [0, 1],
  y: [0, 3],
  xName: "probability of heads",
  yName: "density",
});
const predictive = new Plane(find("predictive"), {
  x: [-0.6, 10.6],
  y: [0, 1],
  xName: "heads",
  yName: "probability",
  height: 260,
});

const room = new Room((answer, fields) => {
  find("tosses").textContent = fields.tosses?.length
    ? `Tosses: ${fields.tosses.slice(-60).map((toss) => (toss ? "H" : "T")).join("")}`
    : "No toss yet";
  find("toss-back").disabled = !fields.tosses?.length;
  if (answer === null) {
    return;
  }
  const { places, prior, posterior, likelihood } = answer;
  // The prior may be infinite at 0 and at 1, so its ends do not count.
  const highest = Math.max(...posterior.density, ...prior.density.slice(4, -4));
  densities.clear([0, 1], [0, Math.min(1.08 * highest, HIGHEST)]);
  const inside = places.map((place, k) => [place, k]).filter(([p]) => p >= posterior.low && p <= posterior.high);
  const xs = inside.map(([place]) => place);
  densities.band(xs, xs.map(() => 0), inside.map(([, k]) => posterior.density[k]), "class-0");
  densities.curve(places, prior.density, "quiet dashed");
  if (likelihood !== null) {
    densities.curve(places, likelihood, "class-1 dotted");
  }
  densities.curve(places, posterior.density, "class-0");
  densities.vertical(posterior.mean, "class-0 thin");
  densities.describe(answer.text.slice(0, 2).join(" "));
  const numbers = answer.predictive.map((_, k) => k);
  predictive.clear([-0.6, numbers.length - 0.4], [0, 1.08 * Math.max(...answer.predictive)]);
  predictive.bars(numbers, answer.predictive, "class-0");
  const best = answer.predictive.indexOf(Math.max(...answer.predictive));
  predictive.describe(
    `Of the next ${numbers.length - 1} tosses, ${best} heads are the most probable number, with probability ` +
      `${answer.predictive[best].toFixed(3)}.`,
  );
});

function toss(result) {
  say(result ? "Heads" : "Tails");
  room.set({ tosses: [...room.fields.tosses, result] });
}

onPress("toss-heads", () => toss(1));
onPress("toss-tails", () => toss(0));
onPress("toss-back", () => room.set({ tosses: room.fields.tosses.slice(0, -1) }));
onPress("toss-clear", () => room.set({ tosses: [] }));
room.open();
