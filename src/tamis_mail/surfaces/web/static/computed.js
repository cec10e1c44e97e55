// Values that the server may still have to compute: their progress is shown until they come.

import { element, get } from "./request.js";

const POLL_MILLISECONDS = 250; // between two requests for the progress of a job

function pause(milliseconds) {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });
}

/** Get values from an address; while they are computed, show the progress in the element `place`. */
export async function fetchComputed(address, place) {
  let values = await get(address);
  while (values.job) {
    let { job } = values;
    const bar = element("progress", { max: job.total || 1, value: job.done, "aria-label": job.title });
    place.replaceChildren(element("p", { class: "quiet" }, `${job.title} …`), bar);
    while (!job.finished) {
      await pause(POLL_MILLISECONDS);
      job = await get(`/jobs/${job.key}`);
      bar.value = job.done;
    }
    if (job.fault) {
      throw new Error(job.fault);
    }
    values = await get(address);
  }
  return values;
}
