// Each account's statement is asked for by itself, so that a slow one keeps nobody waiting; periods are locked and reopened.
import { announce, foreign } from "./console.js";
import { change, fragment, place } from "./rest.js";

const AT_ONCE = 3;
const ANSWER_MS = 75_000;

const at = (id) => document.getElementById(id);
const texts = at("texts").dataset;
const waiting = [...document.querySelectorAll("[data-part]")];

async function load(part) {
  part.setAttribute("aria-busy", "true");
  const loading = document.createElement("p");
  loading.className = "soft";
  loading.textContent = texts.loading;
  part.replaceChildren(loading);
  try {
    place(part, await fragment(part.dataset.part, { answerMs: ANSWER_MS, attempts: 1 }));
  } catch (problem) {
    fail(part, problem);
  }
  part.removeAttribute("aria-busy");
}

function fail(part, problem) {
  const shown = at("part-failed").content.cloneNode(true);
  shown.querySelector("p").textContent = reason(problem);
  shown.querySelector("button").addEventListener("click", () => load(part));
  part.replaceChildren(shown);
}

function reason({ status, code }) {
  if (status === 503 || code === "timed_out") return texts.slow;
  if (status === 422 || status === 404) return texts.none;
  return status ? texts.failed : texts.lost;
}

async function loadNext() {
  while (waiting.length) await load(waiting.shift());
}

for (let number = 0; number < AT_ONCE; number += 1) loadNext();

at("print").hidden = false;
at("print").addEventListener("click", () => window.print());

at("lock")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const refused = at("lock-refused");
  const given = { through: form.elements.through.value, reason: form.elements.reason.value };
  if (form.elements.account.value) given.account = form.elements.account.value;
  if (!at("lock-override").hidden && form.elements.override.checked) given.override = true;
  await decided(refused, form, async () => {
    await change("/period-locks", given);
    announce(texts.locked);
    location.reload();
  }, (problem) => {
    if (problem.code === "period_incomplete") at("lock-override").hidden = false;
  });
});
// What is locked although it is incomplete is what was refused, and not what is chosen after that.
at("lock")?.addEventListener("input", ({ target }) => {
  if (!["through", "account"].includes(target.name)) return;
  at("lock-override").hidden = true;
  at("lock").elements.override.checked = false;
});

let reopening = null;
for (const button of document.querySelectorAll("[data-reopen]")) {
  button.addEventListener("click", () => {
    reopening = { id: button.dataset.reopen, version: button.dataset.version };
    at("reopen-day").textContent = texts.reopening.replace("{day}", button.dataset.day);
    at("reopen-refused").hidden = true;
    at("reopen-reason").value = "";
    at("reopen").showModal();
  });
}
at("reopen-close")?.addEventListener("click", () => at("reopen").close());
at("reopen-form")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  await decided(at("reopen-refused"), event.target, async () => {
    const { id, version } = reopening;
    await change(`/period-locks/${id}/reopen`, { reason: at("reopen-reason").value }, { version });
    location.reload();
  });
});

async function decided(refused, form, action, otherwise = () => {}) {
  const buttons = form.querySelectorAll("button");
  refused.hidden = true;
  for (const button of buttons) button.disabled = true;
  try {
    await action();
  } catch (problem) {
    for (const button of buttons) button.disabled = false;
    if (problem.code === "signed_out") return;
    const fields = (problem.more?.errors ?? []).map((error) => error.detail).join("; ");
    refused.querySelector("p").replaceChildren(foreign([problem.message, fields].filter(Boolean).join(": "), { length: 500 }));
    refused.hidden = false;
    refused.focus();
    otherwise(problem);
  }
}
