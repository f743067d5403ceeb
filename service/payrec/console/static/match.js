// The page of one match: it can be taken back.
import { decidedOf, isLate } from "./decided.js";
import { change } from "./rest.js";

const { id, version } = document.getElementById("match").dataset;
const dialog = document.getElementById("reverse-dialog");
const form = dialog.querySelector("form");
const error = document.getElementById("reverse-error");

document.getElementById("reverse")?.addEventListener("click", () => {
  error.hidden = true;
  dialog.showModal();
});

form.addEventListener("submit", async (event) => {
  if (event.submitter?.value !== "go") return;
  event.preventDefault();
  const go = event.submitter;
  go.disabled = true;
  try {
    await change(`/matches/${id}/reverse`, { reason: form.reason.value }, { version });
    location.reload();
  } catch (problem) {
    error.replaceChildren(problem.message);
    error.hidden = false;
    if (!isLate(problem)) return;
    const { notice } = await decidedOf(id).catch(() => ({ notice: [] }));
    if (notice.length) error.replaceChildren(`${dialog.dataset.first} `, ...notice);
  } finally {
    go.disabled = false;
  }
});
