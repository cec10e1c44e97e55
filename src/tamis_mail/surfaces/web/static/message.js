// The page of one message: its keys, and the learned messages that are similar.

import { isShortcut } from "./page.js";
import { element, get } from "./request.js";

document.addEventListener("keydown", (event) => {
  if (!isShortcut(event)) {
    return;
  }
  if (["s", "h", "f"].includes(event.key)) {
    event.preventDefault();
    document.querySelector(`#message-form button[data-key="${event.key}"]`)?.click();
  } else if (event.key === "b") {
    document.getElementById("back").click();
  }
});

const section = document.getElementById("similar");

async function showSimilar() {
  const state = document.getElementById("similar-state");
  let messages;
  try {
    messages = await get(section.dataset.address);
  } catch (error) {
    state.textContent = `${error.message}.`;
    return;
  }
  if (!messages.length) {
    state.textContent = "No learned message is similar.";
    return;
  }
  const list = element("ul", { id: "similar-list" });
  for (const message of messages) {
    const title = message.listed
      ? element("a", { href: `/messages/${message.digest}` }, message.subject)
      : element("span", {}, message.subject);
    const shared = message.shared.length ? `: both have ${message.shared.join(", ")}` : "";
    const name = { spam: "spam", ham: "wanted" }[message.label] ?? message.label;
    list.append(
      element(
        "li",
        {},
        title,
        ` (learned as ${name}, ${Math.round(100 * message.similarity)} % similar)`,
        element("span", { class: "quiet" }, shared),
      ),
    );
  }
  state.replaceWith(list);
}

if (section) {
  showSimilar();
}
