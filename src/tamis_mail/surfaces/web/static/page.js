// Keys that work on every view: g and then m, l, j, r or s opens a view; u undoes the last action.

const views = { m: "/", l: "/learning", j: "/journal", r: "/rooms", s: "/settings" };
let isAfterG = false;

function isTyping(target) {
  return target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || isTyping(event.target)) {
    return;
  }
  if (isAfterG && event.key in views) {
    location.assign(views[event.key]);
  } else if (event.key === "u") {
    document.getElementById("undo")?.click();
  }
  isAfterG = event.key === "g";
});
