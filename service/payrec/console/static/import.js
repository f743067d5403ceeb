// How far the reading of a file is: looked at ever more rarely, and for ten minutes at most.
import { announce, filled, number } from "./console.js";
import { pause, rest } from "./rest.js";

const FIRST_MS = 500;
const LAST_MS = 5_000;
const WATCHED_MS = 10 * 60_000;

const panel = document.getElementById("watch");
const told = document.getElementById("watch-text");
const bar = document.getElementById("watch-bar");
const again = document.getElementById("watch-again");
const cancel = document.getElementById("cancel");

async function watch() {
  again.hidden = true;
  const until = performance.now() + WATCHED_MS;
  for (let wait = FIRST_MS; performance.now() < until; wait = Math.min(wait * 1.5, LAST_MS)) {
    await pause(wait);
    const { body: job } = await rest("GET", `/jobs/${panel.dataset.job}`);
    if (job.status !== "queued" && job.status !== "running") {
      announce(panel.dataset.done);
      location.reload();
      return;
    }
    show(job.progress);
  }
  told.textContent = panel.dataset.late;
  again.hidden = false;
}

function show({ done, total }) {
  if (total) {
    bar.max = total;
    bar.value = Math.min(done, total);
    told.textContent = filled(panel.dataset.progress, { done: number(done), total: number(total) });
  } else if (done) {
    told.textContent = filled(panel.dataset.begun, { done: number(done) });
  }
}

async function watched() {
  try {
    await watch();
  } catch (problem) {
    told.textContent = problem.status && problem.code !== "signed_out" ? problem.message : panel.dataset.lost;
    again.hidden = false;
  }
}

again.addEventListener("click", watched);
cancel?.addEventListener("click", async () => {
  cancel.disabled = true;
  try {
    await rest("POST", `/jobs/${panel.dataset.job}/cancel`);
    announce(panel.dataset.cancelled);
  } catch (problem) {
    announce(problem.message, { isAlert: true });
    cancel.disabled = false;
  }
});
watched();
