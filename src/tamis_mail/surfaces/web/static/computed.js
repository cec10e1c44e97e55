// Values that the server may still have to compute: their progress is shown until they come.

import { element, get } from "./request.js";

const POLL_MILLISECONDS = 200; // between two requests for the progress of a job

/** Wait until a job has finished, and return its last state; `show` is called with each state before. */
export async function finishJob(job, show) {
  while (!job.finished) {
    show(job);
    await new Promise((resolve) => setTimeout(resolve, POLL_MILLISECONDS));
    job = await get(`/jobs/${job.key}`);
  }
  if (job.fault) {
    throw new Error(job.fault);
  }
  return job;
}

/** Get values from an address; while they are computed, show the progress in the element `place`. */
export async function fetchComputed(address, place) {
  let values = await get(address);
  while (values.job) {
    const { job } = values;
    const bar = element("progress", { max: job.total || 1, "aria-label": job.title });
    place.replaceChildren(element("p", { class: "quiet" }, `${job.title} …`), bar);
    await finishJob(job, ({ done }) => {
      bar.value = done;
    });
    values = await get(address);
  }
  return values;
}
