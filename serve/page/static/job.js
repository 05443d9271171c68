// Jobs of the server: ingests and calibrations go on in the background, and say how far they are.

import { h, put, say, failure } from "./dom.js";
import * as api from "./api.js";

const words = {
  queued: "waits for its turn",
  running: "under way",
  done: "done",
  failed: "failed",
  cancelled: "cancelled",
};

// progress shows a job until it has ended, with a button that ends it, and returns it as it was at last.
export async function progress(place, job) {
  const bar = h("progress", { max: "1", "aria-label": "Progress" });
  const text = h("span", { class: "small" });
  const cancel = h(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: async () => {
        cancel.disabled = true;
        await api.send("DELETE", api.url(`/v1/jobs/${encodeURIComponent(job.id)}`)).catch((e) => say(e.message));
      },
    },
    "Cancel",
  );
  const line = h("div", { class: "job row" }, bar, text, h("span", { class: "spring" }), cancel);
  put(place, line);
  job = await api.follow(job, (j) => {
    const { stage, done, total } = j.progress ?? {};
    if (j.state === "running" && total > 0) bar.value = done / total;
    else if (j.state === "done") bar.value = 1;
    else bar.removeAttribute("value");
    text.textContent = [
      j.state === "running" && stage ? stage : words[j.state],
      j.state === "running" && total > 0 && `${Math.floor((100 * done) / total)} %`,
    ]
      .filter(Boolean)
      .join(", ");
  });
  cancel.remove();
  bar.remove();
  line.classList.add(job.state);
  if (job.error) put(place, failure(job.error));
  say(words[job.state]);
  return job;
}
