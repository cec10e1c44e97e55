// The suggestion of thresholds, which takes seconds: it is requested, shows its progress, and can be put into the form.

import { fetchComputed } from "./computed.js";
import { element } from "./request.js";

const form = document.getElementById("suggestion");
const place = document.getElementById("suggested");
const KINDS = [
  ["spam", "spam", "wanted mail"],
  ["ham", "wanted mail", "spam"],
];

function describeOffer(kind, other, offer) {
  if (offer.suggested === null) {
    return `Threshold of ${kind}: there is too little ${other} to estimate so small a share.`;
  }
  if (offer.is_safe) {
    return `Threshold of ${kind}: ${offer.suggested} (now ${offer.now}).`;
  }
  return (
    `Threshold of ${kind}: better stay at ${offer.now}. ${offer.suggested} is worse on mail that was not used to choose it: ` +
    `${offer.wrong[1]} wrong instead of ${offer.wrong[0]}, ${offer.missed[1]} missed instead of ${offer.missed[0]}.`
  );
}

function showOffers(values) {
  if (values.shortage) {
    place.replaceChildren(element("p", {}, values.shortage));
    return;
  }
  const { sample } = values;
  const sentences = KINDS.map(([name, kind, other]) => element("p", {}, describeOffer(kind, other, values[name])));
  const usable = KINDS.filter(([name]) => values[name].suggested !== null && values[name].is_safe);
  const button = element("button", { type: "button" }, "Put these into the form");
  button.addEventListener("click", () => {
    for (const [name] of usable) {
      document.getElementById(`threshold-${name}`).value = values[name].suggested;
    }
    document.querySelector("#thresholds button").focus();
  });
  place.replaceChildren(
    element("p", { class: "quiet" }, `By ${sample.spam} messages of spam and ${sample.ham} of wanted mail, each judged by the others.`),
    ...sentences,
    ...(usable.length ? [button] : []),
  );
}

form.hidden = false;
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const wanted = new URLSearchParams(new FormData(form));
  try {
    showOffers(await fetchComputed(`/settings/suggestion?${wanted}`, place));
  } catch (error) {
    place.replaceChildren(element("p", { role: "alert" }, `There is no suggestion: ${error.message}`));
  }
});
