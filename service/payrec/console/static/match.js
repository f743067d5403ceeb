// The page of one match: it can be taken back.
import { newIdempotencyKey, rest } from "./rest.js";

const { id, version } = document.getElementById("match").dataset;
const dialog = document.getElementById("reverse-dialog");
const form = dialog.querySelector("form");
const error = document.getElementById("reverse-error");
let idempotencyKey = null;

document.getElementById("reverse")?.addEventListener("click", () => {
  error.hidden = true;
  idempotencyKey = newIdempotencyKey();
  dialog.showModal();
});

form.addEventListener("submit", async (event) => {
  if (event.submitter?.value !== "go") return;
  event.preventDefault();
  try {
    const body = { reason: form.reason.value };
    await rest("POST", `/matches/${id}/reverse`, { body, idempotencyKey, headers: { "If-Match": `"${version}"` } });
    location.reload();
  } catch (problem) {
    error.textContent = problem.message;
    error.hidden = false;
  }
});
