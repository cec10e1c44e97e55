// The figures of the page Learning: all are requested at once, show their progress, and are drawn when they come.
// A view is a kind of features, such as words or headers.

import { drawChart, formatDay, formatNumber, formatShare } from "./charts.js";
import { fetchComputed } from "./computed.js";
import { element } from "./request.js";

const SYMBOLS = ["circle", "square", "triangle", "circle", "square"]; // one per view
const TONES = ["main", "second", "spam", "ham", "unsure"]; // one per view
const DAY_SECONDS = 86400;
const TABLE_ROWS = 200; // maximum rows of a table

function addFigure(parent, isBroad = false) {
  const figure = element("figure", { class: isBroad ? "chart broad" : "chart" });
  parent.append(figure);
  return figure;
}

/** Return the marks of points with texts, and of the line through them; `mark` has the fields of the points. */
function joinPoints(mark, points) {
  return [
    { kind: "line", tone: mark.tone, points: points.map(({ x, y }) => [x, y]) },
    { kind: "points", ...mark, points },
  ];
}

function describeSample(sample) {
  const all = sample.total > sample.messages ? ` (a sample of all ${sample.total.toLocaleString("en")})` : "";
  return `${sample.messages.toLocaleString("en")} learned messages${all}, ${sample.spam.toLocaleString("en")} of them spam.`;
}

function drawStudy(box, values) {
  if (values.shortage) {
    box.replaceChildren(element("p", {}, values.shortage));
    return;
  }
  const { measures } = values;
  box.replaceChildren(
    element(
      "p",
      {},
      `${describeSample(values.sample)} Each was judged by the others (cross-validation): ` +
        `${measures.right.toLocaleString("en")} of ${measures.messages.toLocaleString("en")} are right; ` +
        `${measures.ham_called_spam} of wanted mail were judged as spam, ${measures.spam_called_ham} of spam as wanted, and ` +
        `${measures.unsure} are unsure.`,
    ),
  );
  const charts = element("div", { class: "charts" });
  box.append(charts);
  const curve = values.curve.filter((point) => point.learned);
  drawChart(addFigure(charts), {
    title: "Learning curve",
    description: `With ${curve[0].learned} learned messages ${formatShare(curve[0].accuracy)} are judged right, with ${curve.at(-1).learned} ${formatShare(curve.at(-1).accuracy)}.`,
    x: { title: "messages learned (log scale)", kind: "log", low: curve[0].learned, high: curve.at(-1).learned, ticks: curve.map((point) => [point.learned, String(point.learned)]) },
    y: { title: "share", kind: "number", low: Math.min(0.9, ...curve.flatMap((point) => [point.accuracy, point.roc_area ?? 1])), high: 1 },
    marks: [
      ...joinPoints(
        { name: "judged right", tone: "main" },
        curve.map((point) => ({ x: point.learned, y: point.accuracy, text: `${point.learned} messages learned: ${formatShare(point.accuracy)} judged right` })),
      ),
      ...joinPoints(
        { name: "ROC area", tone: "second", symbol: "square" },
        curve
          .filter((point) => point.roc_area !== null)
          .map((point) => ({ x: point.learned, y: point.roc_area, text: `${point.learned} messages learned: ROC area ${point.roc_area.toFixed(4)}` })),
      ),
    ],
    table: { columns: ["messages learned", "judged right", "ROC area"], rows: curve.map((point) => [point.learned, formatShare(point.accuracy), formatNumber(point.roc_area, 5)]) },
  });
  drawRoc(charts, values);
  drawCalibration(charts, values);
}

function drawRoc(charts, values) {
  const { measures } = values;
  const smallest = 0.5 / Math.max(1, measures.ham); // half a message stands for zero on the logarithmic axis
  const low = 10 ** Math.floor(Math.log10(smallest));
  const caught = Math.max(...values.roc.filter(([ham]) => ham === 0).map(([, spam]) => spam));
  const ticks = [[low, "0"]];
  for (let power = Math.log10(low) + 1; power <= 0.001; power += 1) {
    ticks.push([10 ** power, `${Number((100 * 10 ** power).toPrecision(2))} %`]);
  }
  const stairs = []; // the curve is constant between two points
  for (const [ham, spam] of values.roc) {
    if (stairs.length) {
      stairs.push([Math.max(ham, low), stairs.at(-1)[1]]);
    }
    stairs.push([Math.max(ham, low), spam]);
  }
  drawChart(addFigure(charts), {
    title: "ROC curve",
    description: `${formatShare(caught)} of spam is caught before any wanted message is lost. Area ${formatNumber(measures.roc_area, 5)}.`,
    x: { title: "wanted mail judged as spam (log scale)", kind: "log", low, high: 1, ticks },
    y: { title: "spam caught", kind: "number", low: caught > 0.5 ? 0.5 : 0, high: 1, format: (value) => formatShare(value, 0) },
    marks: [
      { kind: "line", name: "spam caught", tone: "main", points: stairs },
      {
        kind: "points",
        tone: "main",
        symbol: "none",
        points: values.roc.map(([ham, spam]) => ({ x: Math.max(ham, low), y: spam, text: `${formatShare(ham, 2)} of wanted mail judged as spam, ${formatShare(spam)} of spam caught` })),
      },
    ],
    table: { columns: ["wanted mail judged as spam", "spam caught"], rows: values.roc.map(([ham, spam]) => [formatShare(ham, 2), formatShare(spam)]) },
  });
}

/** Return the 95 % Wilson interval of the share of spam. */
function estimateInterval(spam, messages) {
  const z = 1.96; // the 97.5 % quantile of the normal distribution
  const share = spam / messages;
  const middle = (share + (z * z) / (2 * messages)) / (1 + (z * z) / messages);
  const half = (z * Math.sqrt((share * (1 - share)) / messages + (z * z) / (4 * messages ** 2))) / (1 + (z * z) / messages);
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}

function drawCalibration(charts, values) {
  drawChart(addFigure(charts), {
    title: "Calibration",
    description: `Of messages with the same predicted probability, how many are spam? On average the two differ by ${formatShare(values.measures.calibration_error)}.`,
    x: { title: "predicted probability of spam", kind: "number", low: 0, high: 1 },
    y: { title: "observed share of spam", kind: "number", low: 0, high: 1 },
    marks: [
      { kind: "line", name: "perfect calibration", tone: "guide", isDashed: true, points: [[0, 0], [1, 1]] },
      {
        kind: "points",
        name: "messages, with a 95 % interval",
        tone: "main",
        points: values.bins.map((bin) => {
          const [low, high] = estimateInterval(bin.spam, bin.messages);
          return { x: bin.predicted, y: bin.observed, low, high, size: 5, text: `predicted ${formatShare(bin.predicted)}, observed ${formatShare(bin.observed)} of ${bin.messages} messages` };
        }),
      },
    ],
    table: { columns: ["predicted", "observed", "messages"], rows: values.bins.map((bin) => [formatShare(bin.predicted), formatShare(bin.observed), bin.messages]) },
  });
}

function drawWeights(box, values) {
  const estimates = values.estimates;
  const fitted = values.messages === null ? "Nothing is fitted yet: the weights are those before any mail." : `Fitted to ${values.messages.toLocaleString("en")} messages.`;
  const strongest = [...estimates].filter((one) => one.name !== "intercept").sort((a, b) => b.value - a.value)[0];
  box.replaceChildren();
  const low = Math.min(0, ...estimates.map((one) => one.value - 2 * one.deviation));
  const high = Math.max(...estimates.map((one) => Math.max(one.value + 2 * one.deviation, one.prior)));
  const names = estimates.map((one) => one.title);
  drawChart(addFigure(box, true), {
    title: "Weights of each kind of evidence",
    description: `${fitted} The scale by which the score of each kind of evidence is multiplied, with a 95 % interval of its Laplace posterior; ${strongest.title} count most (${formatNumber(strongest.value)}).`,
    x: { title: "scale, and log-odds before evidence", kind: "number", low, high },
    y: { title: "", kind: "names", names },
    marks: [
      { kind: "points", name: "before any mail", tone: "guide", symbol: "square", points: estimates.map((one, row) => ({ x: one.prior, y: row - 0.2, size: 3.5, text: `${names[row]}: before any mail ${formatNumber(one.prior)} ± ${formatNumber(one.prior_deviation, 2)}` })) },
      {
        kind: "points",
        name: "fitted, with a 95 % interval",
        tone: "main",
        points: estimates.map((one, row) => ({
          x: one.value,
          y: row,
          left: one.value - 1.96 * one.deviation,
          right: one.value + 1.96 * one.deviation,
          size: 5,
          text: `${names[row]}: ${formatNumber(one.value)} ± ${formatNumber(one.deviation, 2)}`,
        })),
      },
    ],
    table: {
      columns: ["evidence", "fitted", "standard deviation", "before any mail", "standard deviation before"],
      rows: estimates.map((one, row) => [names[row], formatNumber(one.value), formatNumber(one.deviation), formatNumber(one.prior), formatNumber(one.prior_deviation)]),
    },
  });
}

function describeChange(name, change) {
  const [earlier, earlierTotal] = change.earlier;
  const [later, laterTotal] = change.later;
  const sure = change.rise > 0.975 ? "a rise" : change.rise < 0.025 ? "a fall" : "no clear change";
  return `${name}: ${formatShare(earlierTotal ? earlier / earlierTotal : 0)} of the first ${earlierTotal.toLocaleString("en")} messages, ${formatShare(laterTotal ? later / laterTotal : 0)} of the last ${laterTotal.toLocaleString("en")}: ${sure} (95 % interval of the difference ${formatShare(change.low)} to ${formatShare(change.high)}).`;
}

function drawTrend(box, values) {
  const { days, trend } = values;
  if (!days.length) {
    box.replaceChildren(element("p", {}, "There are no verdicts yet."));
    return;
  }
  box.replaceChildren();
  const messages = days.reduce((sum, day) => sum + day.messages, 0);
  const spam = days.reduce((sum, day) => sum + day.spam, 0);
  const marks = [];
  if (trend) {
    marks.push({ kind: "band", name: "95 % interval of the trend", tone: "main", points: trend.points.map(([day, , low, high]) => [day, low, high]) });
    marks.push({ kind: "line", name: "trend", tone: "main", points: trend.points.map(([day, share]) => [day, share]) });
  }
  const largest = Math.max(...days.map((day) => day.messages));
  marks.push({
    kind: "points",
    name: values.width > 1 ? `share of spam in ${values.width} days` : "share of spam on a day",
    tone: "spam",
    symbol: "triangle",
    points: days.map((day) => ({ x: day.number, y: day.spam / day.messages, size: 2 + 3 * Math.sqrt(day.messages / largest), text: `${formatDay(day.number)}: ${day.spam} of ${day.messages} messages were judged as spam, ${day.unsure} unsure` })),
  });
  const changes = Object.entries(values.changes).map(([name, change]) => describeChange(name === "spam" ? "Spam" : "Unsure", change));
  drawChart(addFigure(box, true), {
    title: "Verdicts over time",
    description: `${spam.toLocaleString("en")} of ${messages.toLocaleString("en")} messages were judged as spam, from ${formatDay(days[0].number)} to ${formatDay(days.at(-1).number)}. ${trend ? `The share has risen with probability ${formatNumber(trend.rise, 2)}.` : "A trend needs messages of at least three days."}`,
    x: { title: values.by === "date" ? "date of the message" : "day of the verdict", kind: "time", low: days[0].number - 0.5, high: days.at(-1).number + 0.5 },
    y: { title: "share of spam", kind: "number", low: 0, high: 1, format: (value) => formatShare(value, 0) },
    marks,
    table: { columns: ["day", "messages", "spam", "unsure"], rows: days.slice(-TABLE_ROWS).map((day) => [formatDay(day.number), day.messages, day.spam, day.unsure]) },
  });
  box.append(...changes.map((sentence) => element("p", {}, sentence)));
}

function drawDrift(box, values) {
  const { periods } = values;
  if (!periods.length) {
    box.replaceChildren(element("p", {}, `This needs at least 20 learned messages with a date; there are ${values.dated}.`));
    return;
  }
  box.replaceChildren();
  const days = periods.map((period) => (period.first + period.last) / 2 / DAY_SECONDS);
  const label = (period) => `${formatDay(period.first / DAY_SECONDS)} to ${formatDay(period.last / DAY_SECONDS)}`;
  const markShare = (mark, share, describe) =>
    joinPoints(
      mark,
      periods.map((period, row) => ({ x: days[row], y: share(period), text: `${label(period)}: ${formatShare(share(period))} of ${describe(period)}` })),
    );
  const x = { title: "date of the messages", kind: "time", low: periods[0].first / DAY_SECONDS, high: periods.at(-1).last / DAY_SECONDS };
  const charts = element("div", { class: "charts" });
  box.append(charts);
  drawChart(addFigure(charts), {
    title: "Each period judged by earlier mail",
    description: `In the newest period ${formatShare(periods.at(-1).accuracy)} of ${periods.at(-1).messages} messages are judged right by a filter that learned all earlier ones; in the period before it ${formatShare(periods.at(-2)?.accuracy)}.`,
    x,
    y: { title: "share", kind: "number", low: 0, high: 1, format: (value) => formatShare(value, 0) },
    marks: [
      ...markShare({ name: "judged right", tone: "main" }, (period) => period.accuracy, (period) => `${period.messages} messages judged right`),
      ...markShare({ name: "share of spam", tone: "spam", symbol: "triangle" }, (period) => period.spam / period.messages, (period) => `${period.messages} messages are spam`),
      ...markShare({ name: "unsure", tone: "unsure", symbol: "square" }, (period) => period.unsure / period.messages, (period) => `${period.messages} messages are unsure`),
    ],
    table: {
      columns: ["period", "messages", "judged right", "spam", "unsure"],
      rows: periods.map((period) => [label(period), period.messages, formatShare(period.accuracy), period.spam, period.unsure]),
    },
  });
  drawChart(addFigure(charts), {
    title: "New features",
    description: "The share of features that no earlier message has. A rise says that the mail itself has changed.",
    x,
    y: { title: "share", kind: "number", low: 0, high: Math.max(...periods.flatMap((period) => Object.values(period.unknown)), 0.1), format: (value) => formatShare(value, 0) },
    marks: values.views.flatMap((view, number) =>
      markShare(
        { name: values.titles[view], tone: TONES[number], symbol: SYMBOLS[number] },
        (period) => period.unknown[view],
        () => `the ${values.titles[view]} of a message are new`,
      ),
    ),
    table: { columns: ["period", ...values.views.map((view) => values.titles[view])], rows: periods.map((period) => [label(period), ...values.views.map((view) => formatShare(period.unknown[view]))]) },
  });
}

function drawCampaigns(box, values) {
  if (!values.campaigns.length) {
    box.replaceChildren(element("p", {}, `No campaign was found among ${values.searched.toLocaleString("en")} learned messages of spam.`));
    return;
  }
  box.replaceChildren();
  const names = values.campaigns.map((one, number) => `${number + 1}`);
  drawChart(addFigure(box, true), {
    title: "Campaigns",
    description: `${values.campaigns.length} groups of spam with the same words among ${values.searched.toLocaleString("en")} messages; the largest has ${values.campaigns[0].messages}.`,
    x: { title: "campaign", kind: "names", names },
    y: { title: "messages", kind: "number", low: 0, high: values.campaigns[0].messages },
    marks: [
      {
        kind: "bars",
        name: "messages",
        tone: "spam",
        width: 18,
        points: values.campaigns.map((one, number) => ({ x: number, y: one.messages, text: `Campaign ${number + 1}: ${one.messages} messages, such as “${one.examples[0].subject}”`, href: `#campaign-${number + 1}` })),
      },
    ],
    table: { columns: ["campaign", "messages", "cohesion"], rows: values.campaigns.map((one, number) => [number + 1, one.messages, formatNumber(one.cohesion, 2)]) },
  });
  const cards = element("div", { class: "cards" });
  box.append(cards);
  values.campaigns.forEach((one, number) => {
    const period = one.first === null ? "" : `, ${formatDay(one.first / DAY_SECONDS)} to ${formatDay(one.last / DAY_SECONDS)}`;
    cards.append(
      element(
        "section",
        { class: "card", id: `campaign-${number + 1}`, tabindex: -1 },
        element("h3", {}, `Campaign ${number + 1}`),
        element("p", { class: "quiet" }, `${one.messages} messages${period}; mean cosine of two messages ${formatNumber(one.cohesion, 2)}`),
        ...(one.words.length ? [element("p", {}, `Typical words: ${one.words.join(", ")}`)] : []),
        element("ul", {}, ...one.examples.map((message) => element("li", {}, element("a", { href: `/messages/${message.digest}` }, message.subject || message.digest), element("br"), element("span", { class: "quiet" }, message.sender)))),
      ),
    );
  });
}

function drawMap(box, values) {
  const { points } = values;
  if (!points.length) {
    box.replaceChildren(element("p", {}, "The map needs at least three learned messages."));
    return;
  }
  box.replaceChildren();
  const across = points.map((point) => point.x);
  const along = points.map((point) => point.y);
  const describe = (point) => `${point.spam ? "spam" : "wanted"}: ${point.subject || point.digest} – ${point.sender}`;
  const select = (isSpam) => points.filter((point) => point.spam === isSpam).map((point) => ({ x: point.x, y: point.y, text: describe(point), href: `/messages/${point.digest}` }));
  const centre = (isSpam) => {
    const members = points.filter((point) => point.spam === isSpam);
    const mean = (numbers) => formatNumber(numbers.reduce((sum, number) => sum + number, 0) / Math.max(1, numbers.length), 2);
    return `(${mean(members.map((point) => point.x))}, ${mean(members.map((point) => point.y))})`;
  };
  drawChart(addFigure(box, true), {
    title: "Map of the mailbox",
    description: `${describeSample(values.sample)} Messages with similar headers and words are near each other (two principal components, which have ${formatShare(values.shares[0] + values.shares[1])} of the variance). The centre of spam is at ${centre(true)}, that of wanted mail at ${centre(false)}.`,
    x: { title: `first component (${formatShare(values.shares[0])} of the variance)`, kind: "number", low: Math.min(...across), high: Math.max(...across) },
    y: { title: "second component", kind: "number", low: Math.min(...along), high: Math.max(...along) },
    marks: [
      { kind: "points", name: "wanted", tone: "ham", points: select(false) },
      { kind: "points", name: "spam", tone: "spam", symbol: "triangle", points: select(true) },
    ],
    table: { columns: ["label", "subject", "sender", "first component", "second component"], rows: points.slice(0, TABLE_ROWS).map((point) => [point.spam ? "spam" : "wanted", point.subject || point.digest, point.sender, point.x, point.y]) },
  });
}

const drawers = { study: drawStudy, weights: drawWeights, trend: drawTrend, drift: drawDrift, campaigns: drawCampaigns, map: drawMap };

async function show(box) {
  try {
    const values = await fetchComputed(`/learning/figures/${box.dataset.figure}`, box);
    drawers[box.dataset.figure](box, values);
  } catch (error) {
    box.replaceChildren(element("p", { role: "alert" }, `This figure could not be drawn: ${error.message}`));
  }
  box.setAttribute("aria-busy", "false");
}

await Promise.all([...document.querySelectorAll("[data-figure]")].map(show));
document.documentElement.dataset.ready = "learning";
