// Keys that work on every view: g then m, l, j, r, s goes to a view; u undoes what was just done.

const views = { m: "/", l: "/learning", j: "/journal", r: "/rooms", s: "/settings" };
let isGoing = false;

function isTyping(target) {
  return target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || isTyping(event.target)) {
    return;
  }
  if (isGoing && event.key in views) {
    location.assign(views[event.key]);
  } else if (event.key === "u") {
    document.getElementById("undo")?.click();
  }
  isGoing = event.key === "g";
});
