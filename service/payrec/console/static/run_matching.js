// The button that runs matching: it starts a run, or waits for the one that is under way, and shows what came of it.
import { announce, filled, number } from "./console.js";
import { pause, rest } from "./rest.js";

const FIRST_WAIT_S = 20;
const ANSWER_MS = 40_000;
const LOOK_MS = 2_000;
const TOLD = "payrec-told";

async function run(button) {
  const texts = button.dataset;
  button.disabled = true;
  announce(texts.running);
  try {
    let { body: found } = await rest("POST", "/matches/match", { body: { wait: FIRST_WAIT_S }, answerMs: ANSWER_MS });
    const job = found.jobId;
    while (["queued", "running"].includes(found.status)) {
      await pause(LOOK_MS);
      const { body } = await rest("GET", `/jobs/${job}`);
      found = { status: body.status, counts: body.result?.counts, error: body.error };
    }
    if (found.status !== "succeeded") throw new Error(found.error?.detail ?? found.error?.title ?? found.status);
    const { proposed = 0, autoAccepted = 0 } = found.counts ?? {};
    const told = filled(texts.done, { proposed: number(proposed), accepted: number(autoAccepted) });
    sessionStorage.setItem(TOLD, told);
    location.assign(texts.then);
  } catch (problem) {
    announce(filled(texts.failed, { why: problem.message }), { isAlert: true });
    button.disabled = false;
  }
}

for (const button of document.querySelectorAll("[data-run-matching]")) {
  button.hidden = false;
  button.addEventListener("click", () => run(button));
}
// Told by the page to which the run has led.
const told = sessionStorage.getItem(TOLD);
sessionStorage.removeItem(TOLD);
if (told) announce(told);
