// The review queue: one match after the other, the next one ready before it is asked for.
import { announce } from "./console.js";
import { Decisions } from "./review_decisions.js";
import { countDown, say } from "./review_texts.js";
import { fragment, pause, place } from "./rest.js";

const AHEAD = 2;
const STAYS_MS = 250;
const KEPT_MAX = 30;
const KEPT_MS = 60_000;

const page = document.getElementById("review");
const item = document.getElementById("item");
const end = document.getElementById("item-end");
const list = document.getElementById("queue");
const foot = document.getElementById("queue-foot");
const environment = document.body.dataset.environment;
const placeKey = `payrec-review-${document.body.dataset.user}-${environment}-${page.dataset.status}`;
const kept = new Map();
let mayBeBefore = Boolean(page.dataset.wasAsked);
let showing = page.dataset.current || null;
let asked = 0;

const rows = () => [...list.querySelectorAll(".queue-row")];
const first = () => list.querySelector(".queue-row");
const rowOf = (id) => document.getElementById(`queue-${id}`)?.closest(".queue-row");

/** Return the row behind another one, or before it; the rows of each page are a list of their own. */
function beside(row, step) {
  const [sibling, edge] = step > 0 ? ["nextElementSibling", "firstElementChild"] : ["previousElementSibling", "lastElementChild"];
  let at = row?.[sibling];
  for (let all = row?.parentElement; all && !at;) {
    all = all[sibling];
    at = all?.[edge];
  }
  return at;
}

const article = () => item.querySelector("article");

/** Return the HTML of a fragment of a match, asked for once as long as it is new. */
function load(path, { signal, inBackground = false } = {}) {
  const known = kept.get(path);
  if (known && performance.now() - known.at < KEPT_MS) {
    // Who waits for it is asked to sign in again, as who looks ahead is not.
    const again = (problem) => { if (problem.status === 401) return load(path); throw problem; };
    return known.inBackground && !inBackground ? known.html.catch(again) : known.html;
  }
  const html = fragment(path, { signal, inBackground });
  const found = { at: performance.now(), html, text: null, inBackground };
  html.then((text) => { found.text = text; }, () => kept.delete(path));
  kept.set(path, found);
  if (kept.size > KEPT_MAX) kept.delete(kept.keys().next().value);
  return html;
}

const itemPath = (id) => `${page.dataset.place}/items/${id}`;
const choicesPath = (id) => `${itemPath(id)}/choices`;

async function show(id) {
  const number = (asked += 1);
  let html;
  try {
    html = await load(itemPath(id));
  } catch (problem) {
    announce(say("failed", { why: problem.message }), { isAlert: true });
    return false;
  }
  if (number !== asked) return false;
  const hadFocus = item.contains(document.activeElement) || end.contains(document.activeElement);
  place(item, html);
  end.hidden = true;
  showing = id;
  remember(id);
  if (hadFocus) item.querySelector("#item-title")?.focus();
  shown();
  return true;
}

function showEnd() {
  asked += 1;
  showing = null;
  item.replaceChildren();
  end.hidden = false;
  const title = end.querySelector("h2");
  title.id = "item-title";
  title.focus();
  shown();
}

/** Scroll the list, and nothing but the list: where it stands below the match, the page stays at the match. */
function bringIntoSight(row) {
  const scroller = document.getElementById("queue-scroll");
  const [outer, inner] = [scroller.getBoundingClientRect(), row.getBoundingClientRect()];
  if (inner.top < outer.top) scroller.scrollTop -= outer.top - inner.top;
  else if (inner.bottom > outer.bottom) scroller.scrollTop += inner.bottom - outer.bottom;
}

/** Do what follows when a match is there to be looked at. */
function shown() {
  decisions.changed();
  for (const link of list.querySelectorAll("a[aria-current]")) link.removeAttribute("aria-current");
  const row = showing && rowOf(showing);
  if (row) {
    row.querySelector("a").setAttribute("aria-current", "true");
    bringIntoSight(row);
  }
  hush();
  if (showing) stay(showing);
  ahead();
}

let looking = null;

/**
 * Look for what else would fit, and then for that of the next match: among all that is open, so only for who stays at a
 * match. Who decides or goes on does not wait for it.
 */
async function stay(id) {
  if (looking?.id === id) return;
  hush();
  looking = { id, ends: new AbortController() };
  const { signal } = looking.ends;
  try {
    const isThere = typeof kept.get(choicesPath(id))?.text === "string";
    if (!isThere) await pause(STAYS_MS, signal);
    await showChoices(id, signal);
    const next = beside(rowOf(id), 1);
    if (!next) return;
    await pause(STAYS_MS, signal);
    await load(choicesPath(next.dataset.id), { signal, inBackground: true });
  } catch {
    // It is looked for again when that match is shown.
  }
}

/** Stop looking for what else would fit; the server stops as well. */
function hush() {
  looking?.ends.abort();
  looking = null;
}

async function showChoices(id, signal) {
  const holder = item.querySelector("[data-choices]");
  if (!holder || holder.dataset.isThere) return;
  try {
    const html = await load(choicesPath(id), { signal, inBackground: true });
    signal.throwIfAborted();
    place(holder, html);
    holder.dataset.isThere = "yes";
  } catch (problem) {
    if (signal.aborted) throw problem;
    holder.textContent = say("choices_failed");
  }
}

async function ahead() {
  const next = [];
  const row = showing && rowOf(showing);
  for (let at = row ? beside(row, 1) : first(); at && next.length < AHEAD; at = beside(at, 1)) next.push(at);
  await Promise.allSettled(next.map((one) => load(itemPath(one.dataset.id), { inBackground: true })));
  if (next.length < AHEAD) await more();
}

/** Remember where somebody is: in the address for this page, and for who comes back by the navigation. */
function remember(id) {
  const address = new URL(location.href);
  address.searchParams.set("match", id);
  address.searchParams.delete("direction");
  history.replaceState(null, "", address);
  sessionStorage.setItem(placeKey, address.search);
}

let loading = null;

/** Get more of the queue behind what is listed; false where there is nothing. */
function more() {
  const link = foot.querySelector("[data-more]");
  if (!link) return Promise.resolve(false);
  loading ??= listed(new URL(link.href).search, (found, hasMore) => {
    list.append(found);
    if (!hasMore) foot.textContent = say("end");
    else if (found.lastElementChild) {
      const address = new URL(link.href);
      address.searchParams.set("match", found.lastElementChild.dataset.id);
      link.href = address;
    }
  }).finally(() => { loading = null; });
  return loading;
}

/** Get what stands before what is listed. */
async function before() {
  if (!mayBeBefore || !first()) return false;
  const address = new URL(location.href);
  address.searchParams.set("match", first().dataset.id);
  address.searchParams.set("direction", "before");
  return listed(address.search, (found, hasMore) => {
    mayBeBefore = hasMore;
    list.prepend(found);
  });
}

async function listed(search, take) {
  try {
    const holder = document.createElement("div");
    place(holder, await fragment(`${page.dataset.place}/queue${search}`));
    const found = holder.querySelector(".queue-page");
    for (const row of [...found.children]) if (rowOf(row.dataset.id)) row.remove();
    const isMore = found.children.length > 0;
    take(found, found.dataset.hasMore === "yes");
    decisions.selection.listed();
    return isMore;
  } catch (problem) {
    announce(`${say("queue_failed")} ${problem.message}`, { isAlert: true });
    return false;
  }
}

async function go(step) {
  const row = showing && rowOf(showing);
  const target = row ? beside(row, step) : step > 0 ? first() : rows().at(-1);
  if (target) {
    const isShown = await show(target.dataset.id);
    // Who decides hears what is next anyway, and nobody needs to see it twice.
    if (isShown) document.getElementById("heard").textContent = target.querySelector("a").textContent.replace(/\s+/g, " ").trim();
    return isShown;
  }
  if (step > 0 ? await more() : await before()) return go(step);
  if (step > 0) announce(say("end"));
  return false;
}

/** Go on after a decision: the match leaves the queue, and what competed with it is looked at anew. */
async function leave(id, told) {
  const gone = article()?.dataset.id === id ? article().dataset.transactions.trim().split(" ") : [];
  for (const [path, found] of kept) {
    const isOld = (text) => gone.some((name) => name && text.includes(name));
    // What is there already must not be shown once more; what is under way is not waited for.
    if (found.text !== null) {
      if (isOld(found.text)) kept.delete(path);
    } else found.html.then((text) => { if (isOld(text)) kept.delete(path); }, () => {});
  }
  const row = rowOf(id);
  const following = (beside(row, 1) ?? ((await more()) ? beside(row, 1) : null))?.dataset.id;
  row?.remove();
  decisions.selection.leave([id]);
  decisions.selection.listed();
  countDown(1);
  if (showing !== id) return announce(told);
  if (following && (await show(following))) {
    performance.measure("decision-to-next", "decision");
    announce(`${told} ${say("next_is", { what: item.querySelector("#item-title")?.textContent ?? "" })}`);
  } else if (!following) {
    showEnd();
    announce(`${told} ${say("end")}`);
  }
}

const decisions = new Decisions({
  page,
  item,
  article,
  leave,
  refresh: async (id) => {
    kept.delete(itemPath(id));
    if (showing === id) await show(id);
  },
  placeKey,
  begins: hush,
  ends: () => { if (showing) stay(showing); },
});

const ACTIONS = {
  next: () => go(1),
  previous: () => go(-1),
  accept: () => decisions.accept(),
  reject: () => decisions.reject(),
  split: () => decisions.split(),
  undo: () => decisions.undo(),
  "accept-selected": () => decisions.bulk("accept"),
  "reject-selected": () => decisions.bulk("reject"),
  clear: () => {
    decisions.selection.clear();
    // What was pressed is not there any more.
    document.getElementById("queue-scroll").focus();
  },
};
const KEYS = { j: "next", k: "previous", a: "accept", r: "reject", s: "split", u: "undo" };

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-do]");
  if (button && ACTIONS[button.dataset.do]) return ACTIONS[button.dataset.do]();
  const opener = event.target.closest("[data-open]");
  if (opener) return document.getElementById(opener.dataset.open).showModal();
  const choice = event.target.closest("[data-pick]")?.closest(".choice");
  if (choice) return decisions.pick(choice);
  const more_ = event.target.closest("[data-more]");
  const link = event.target.closest("#queue a");
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return undefined;
  if (more_) {
    event.preventDefault();
    return more();
  }
  if (link) {
    event.preventDefault();
    return show(link.closest(".queue-row").dataset.id);
  }
  if (event.target.closest("[data-top]")) sessionStorage.removeItem(placeKey);
  return undefined;
});

list.addEventListener("change", ({ target }) => decisions.selection.select(target.closest(".queue-row"), target.checked));
document.getElementById("select-all")?.addEventListener("change", ({ target }) => {
  const { checked } = target;
  for (const row of rows()) decisions.selection.select(row, checked);
});

const keysOn = document.getElementById("keys-on");
keysOn.checked = localStorage.getItem("payrec-review-keys") !== "off";
keysOn.addEventListener("change", () => localStorage.setItem("payrec-review-keys", keysOn.checked ? "on" : "off"));

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const own = event.target.closest("input:not([type=checkbox]), textarea, select, dialog, [contenteditable]");
  // What is in a dialog that was closed keeps the focus until the next frame.
  if (own && !own.closest("dialog:not([open])")) return;
  const isList = event.target.closest("#queue-scroll");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  // Elsewhere these scroll the page, which everybody needs who has no mouse.
  if (step && isList) {
    event.preventDefault();
    go(step);
    return;
  }
  if (!keysOn.checked || event.repeat) return;
  const key = event.key.toLowerCase();
  if (key === "?") document.getElementById("keys-dialog").showModal();
  else if (key === "x" && showing) decisions.selection.toggle(rowOf(showing));
  else if (/^[1-9]$/.test(key)) decisions.pick(item.querySelectorAll(".choice")[Number(key) - 1]);
  else if (KEYS[key]) ACTIONS[KEYS[key]]();
  else return;
  event.preventDefault();
});

const watcher = new IntersectionObserver(async (seen) => {
  if (!seen.at(-1).isIntersecting || !(await more())) return;
  // Only a change is told: what is still in sight after the rows came is looked at once more.
  watcher.unobserve(foot);
  watcher.observe(foot);
}, { root: document.getElementById("queue-scroll"), rootMargin: "400px" });
watcher.observe(foot);

page.dataset.isReady = "yes";
const stored = sessionStorage.getItem(placeKey);
if (!location.search && stored) {
  // Remembered again by the page that it leads to, unless there is none: an environment may have been made anew.
  sessionStorage.removeItem(placeKey);
  location.replace(page.dataset.place + stored);
} else {
  if (showing) {
    remember(showing);
    shown();
  } else if (page.dataset.wasAsked) decisions.changed();
  decisions.tellOfBefore();
}
