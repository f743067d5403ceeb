// Brings the figures once they are added up, and what is under way again as long as something is.
import { fragment, place } from "./rest.js";

const AGAIN_MS = 5_000;
const figures = document.getElementById("figures");
const activity = document.getElementById("activity");

async function show() {
  figures.setAttribute("aria-busy", "true");
  try {
    place(figures, await fragment(figures.dataset.address, { answerMs: 75_000, attempts: 2 }));
  } catch (error) {
    const failed = document.getElementById("figures-failed").content.cloneNode(true);
    failed.querySelector(".why").textContent = error.message;
    failed.querySelector("button").addEventListener("click", show);
    figures.replaceChildren(failed);
  } finally {
    figures.setAttribute("aria-busy", "false");
  }
}

async function again() {
  if (!document.hidden && !activity.contains(document.activeElement)) {
    const wereUnderWay = activity.firstElementChild.dataset.underWay;
    try {
      place(activity, await fragment(activity.dataset.address, { attempts: 1 }));
    } catch {
      return; // What is shown stays; the next visit to the page shows the present.
    }
    if (wereUnderWay !== activity.firstElementChild.dataset.underWay) show();
  }
  follow();
}

function follow() {
  if (activity.firstElementChild.dataset.underWay !== "0") setTimeout(again, AGAIN_MS);
}

if (figures.getAttribute("aria-busy") === "true") show();
follow();
