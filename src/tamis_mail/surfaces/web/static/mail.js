// The page that lists mail: its keys, the selection, the update of stale verdicts (something was learned after
// them), and the import of mailboxes.

import { finishJob } from "./computed.js";
import { isShortcut } from "./page.js";
import { notify, post, upload } from "./request.js";

const names = { spam: "spam", ham: "wanted", unsure: "unsure" };
const rows = [...document.querySelectorAll("ul.mail li")];
const boxes = rows.map((row) => row.querySelector('input[name="digest"]'));
const all = document.getElementById("all");
const selected = document.getElementById("selected");

function showSelection() {
  const number = boxes.filter((box) => box.checked).length;
  selected.textContent = number ? `${number} selected` : "";
  all.checked = number === boxes.length;
  all.indeterminate = number > 0 && number < boxes.length;
}

all?.addEventListener("change", () => {
  for (const box of boxes) {
    box.checked = all.checked;
  }
  showSelection();
});
for (const box of boxes) {
  box.addEventListener("change", showSelection);
}
if (rows.length) {
  showSelection(); // the browser may restore check marks
}

// Keys.

function currentRow() {
  return rows.findIndex((row) => row.contains(document.activeElement));
}

function moveFocus(step) {
  const next = Math.min(rows.length - 1, Math.max(0, currentRow() + step));
  rows[next]?.querySelector(".subject").focus();
}

function pressButton(key) {
  const button = document.querySelector(`#mail-form button[data-key="${key}"]`);
  const row = currentRow();
  if (!boxes.some((box) => box.checked) && row >= 0) {
    boxes[row].checked = true;
  }
  button?.click();
}

document.addEventListener("keydown", (event) => {
  if (!isShortcut(event)) {
    return;
  }
  const actions = {
    j: () => moveFocus(1),
    k: () => moveFocus(-1),
    x: () => boxes[currentRow()]?.click(),
    s: () => pressButton("s"),
    h: () => pressButton("h"),
    f: () => pressButton("f"),
    n: () => document.querySelector('a[rel="next"]')?.click(),
    p: () => document.querySelector('a[rel="prev"]')?.click(),
    "/": () => document.getElementById("text").focus(),
  };
  if (event.key in actions) {
    event.preventDefault();
    actions[event.key]();
  }
});

// Stale verdicts.

async function refreshVerdicts() {
  const stale = rows.filter((row) => "stale" in row.dataset);
  if (!stale.length) {
    return;
  }
  const verdicts = await post("/judge", { digests: stale.map((row) => row.dataset.digest) });
  for (const row of stale) {
    const verdict = verdicts[row.dataset.digest];
    if (verdict) {
      const place = row.querySelector(".verdict");
      place.className = `verdict ${verdict.label in names ? verdict.label : "ham"}`;
      place.querySelector(".verdict-name").textContent = names[verdict.label] ?? verdict.label;
      place.querySelector(".probability").textContent = `${(100 * verdict.probability).toFixed(1)} %`;
      delete row.dataset.stale;
    }
  }
}

refreshVerdicts().catch((error) => notify(`${error.message}.`, true));

// Jobs.

const progress = document.getElementById("import-progress");
const words = document.getElementById("import-words");
const bar = document.getElementById("import-bar");

function showProgress(sentence, share) {
  progress.hidden = false;
  words.textContent = sentence;
  bar.value = share;
}

async function waitForJob(job) {
  const { title, remark } = await finishJob(job, (state) =>
    showProgress(`${state.title}: ${state.remark}`, state.total ? state.done / state.total : 0),
  );
  showProgress(`${title}: ${remark || "done"}`, 1);
}

async function importFiles(files) {
  const label = document.querySelector('#import-form input[name="label"]:checked').value;
  try {
    for (const file of files) {
      showProgress(`Sending ${file.name} …`, 0);
      const address = `/imports?${new URLSearchParams({ name: file.name, label })}`;
      const job = await upload(address, file, (share) => showProgress(`Sending ${file.name} …`, share));
      await waitForJob(job);
    }
    location.assign("/");
  } catch (error) {
    progress.hidden = true;
    notify(`${error.message}.`, true);
  }
}

const drop = document.getElementById("drop");
const file = document.getElementById("file");
file.addEventListener("change", () => importFiles([...file.files]));
document.getElementById("import-form").addEventListener("submit", (event) => event.preventDefault());
for (const name of ["dragenter", "dragover"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault();
    document.getElementById("import").open = true;
    drop.classList.add("over");
  });
}
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) {
    drop.classList.remove("over");
  }
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  if (event.dataTransfer.files.length) {
    importFiles([...event.dataTransfer.files]);
  }
});

document.getElementById("judge-all")?.addEventListener("click", async (event) => {
  event.target.disabled = true;
  document.getElementById("import").open = true;
  try {
    await waitForJob(await post("/judge-all", {}));
    location.reload();
  } catch (error) {
    notify(`${error.message}.`, true);
  }
});
