// Keys that work on every page: g and then m, l, j, r or s opens a page; u undoes the last action.

const addresses = { m: "/", l: "/learning", j: "/journal", r: "/rooms", s: "/settings" };
let isAfterG = false;

/** Return whether a key has no modifier, and is not typed into a field. */
export function isShortcut(event) {
  const isTyping = event.target.closest("input:not([type=checkbox]), textarea, select") !== null;
  return !(event.ctrlKey || event.altKey || event.metaKey || isTyping);
}

document.addEventListener("keydown", (event) => {
  if (!isShortcut(event)) {
    return;
  }
  if (isAfterG && event.key in addresses) {
    location.assign(addresses[event.key]);
  } else if (event.key === "u") {
    document.getElementById("undo")?.click();
  }
  isAfterG = event.key === "g";
});
