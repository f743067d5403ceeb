// The page of what is open: choosing on both sides and matching by hand, candidates, more rows, and setting aside.
import { announce, counted, filled, money, text } from "./console.js";
import { isLate, whoMatched } from "./decided.js";
import { moreRows, rowsOf } from "./more_rows.js";
import { exchange, gap, matchOf, rateOf, sums, worth } from "./manual_match.js";
import { change, fragment, isRefusal, place } from "./rest.js";
import { SetAside } from "./set_aside.js";

const page = document.getElementById("unmatched");
const bar = document.getElementById("match-bar");
const outcome = document.getElementById("outcome");
const chosen = new Map();
let undo = null;

/** Return what a row says of itself; a candidate says the same as the row that it stands for. */
function said(element) {
  const { id, side, direction, currency, exponent, open, version } = element.dataset;
  return { id, side, direction, currency, exponent: Number(exponent), open: BigInt(open), version };
}

function rowOf(side, id) {
  return document.getElementById(`${side}-${id}`);
}

function fault(name, message, details = null) {
  const told = document.getElementById(`fault-${name}`);
  if (!told) return;
  told.replaceChildren(message, ...(details ? [details] : []));
  told.hidden = !message;
  const field = document.querySelector(`[aria-describedby~="fault-${name}"]`);
  if (field) field.toggleAttribute("aria-invalid", Boolean(message));
}

// Choosing ----------------------------------------------------------------------------------------------------------

function choose(row, isChosen) {
  if (isChosen) chosen.set(row.id, row);
  else chosen.delete(row.id);
  const element = rowOf(row.side, row.id);
  const box = element?.querySelector(".line-choice");
  if (box) box.checked = isChosen;
  element?.classList.toggle("is-chosen", isChosen);
  drawBar();
}

function clear() {
  for (const row of [...chosen.values()]) choose(row, false);
}

function drawBar() {
  if (!bar) return;
  const rows = [...chosen.values()];
  bar.hidden = rows.length === 0;
  noFaults();
  const body = document.getElementById("match-sums");
  body.replaceChildren();
  const told = [];
  for (const sum of sums(rows)) {
    const line = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = sum.currency;
    line.append(head);
    const amounts = ["lines", "items", "difference"].map((name) => money(sum[name], sum.currency, sum.exponent));
    for (const amount of amounts) {
      const cell = document.createElement("td");
      cell.className = "amount";
      cell.textContent = amount;
      line.append(cell);
    }
    body.append(line);
    const [lines, items, difference] = amounts;
    told.push(filled(text("chosen", bar), { lines, items, difference }));
  }
  const lines = chosenLines();
  const button = document.getElementById("aside-chosen");
  button.hidden = !lines.length;
  button.textContent = counted("aside", lines.length, bar);
  const missing = new Set(rows.map((row) => row.currency)).size === 1 ? gap(rows) : 0n;
  const pair = exchange(rows);
  drawAdjustments(pair ? "exchange" : missing > 0n ? "short" : missing < 0n ? "over" : "");
  drawRate(pair);
  document.getElementById("match-told").textContent = told.join(" ");
}

function noFaults() {
  for (const name of ["match", "reason", "adjustment", "rate"]) fault(name, "");
}

function typedRate() {
  return rateOf(document.getElementById("match-rate").value, document.body.dataset.decimal);
}

/** Ask for the rate where a line and an item are of two currencies, and tell what the line is worth at it. */
function drawRate(pair) {
  const field = document.getElementById("rate-field");
  if (!field) return;
  field.hidden = !pair;
  const rate = pair && typedRate();
  const told = document.getElementById("rate-told");
  told.textContent = "";
  if (!pair) return;
  const { line, item } = pair;
  field.querySelector("label").textContent = filled(text("rate", bar), { line: line.currency, item: item.currency });
  if (!rate) return;
  const settled = worth(pair, rate);
  const [amount, difference] = [settled, item.open - settled].map((minor) => money(minor, item.currency, item.exponent));
  told.textContent = filled(text("worth", bar), { amount, difference });
}

function drawAdjustments(kind) {
  const select = document.getElementById("match-adjustment");
  if (!select) return;
  select.disabled = !kind;
  for (const option of select.options) {
    const isFor = !option.dataset.of || option.dataset.of === kind;
    option.hidden = option.disabled = !isFor;
  }
  if (select.selectedOptions[0]?.disabled ?? true) select.value = "";
}

// Matching ----------------------------------------------------------------------------------------------------------

let isSending = false;
const FAULTY = { rate: "rate", worth: "adjustment" };

async function match(event) {
  event.preventDefault();
  if (isSending || !document.getElementById("match-send")) return;
  const rows = [...chosen.values()];
  const made = matchOf(rows, document.getElementById("match-adjustment").value, typedRate());
  noFaults();
  if (made.fault) fault(FAULTY[made.fault] ?? "match", text(`fault${made.fault[0].toUpperCase()}${made.fault.slice(1)}`, bar));
  const reason = document.getElementById("match-reason");
  fault("reason", reason.value.trim() ? "" : text("faultReason", bar));
  if (made.fault === "rate") document.getElementById("match-rate").focus();
  if (made.fault) return;
  if (!reason.value.trim()) {
    reason.focus();
    return;
  }
  const body = { legs: made.legs, adjustments: made.adjustments, reason: reason.value.trim() };
  isSending = true;
  document.getElementById("match-send").setAttribute("aria-disabled", "true");
  try {
    const { body: stored } = await change("/matches", body);
    reason.value = document.getElementById("match-rate").value = "";
    const places = takeAway(rows);
    clear();
    const isWaiting = stored.status === "pending_approval";
    tell(text(isWaiting ? "waits" : "done", bar), {
      link: stored.id,
      undo: async () => {
        await change(`/matches/${stored.id}/${isWaiting ? "reject" : "reverse"}`, { reason: text("undoReason", bar) });
        putBack(places);
        tell(text("undone", bar));
      },
    });
  } catch (problem) {
    refused(problem, "match");
    if (isLate(problem)) {
      const first = await whoMatched(rows).catch(() => "");
      if (first) fault("match", `${text("first", bar)} ${first}`);
    }
  } finally {
    isSending = false;
    document.getElementById("match-send").removeAttribute("aria-disabled");
  }
}

/** Say what the server has refused, beside the field that it names, or else below all of them. */
function refused(problem, other) {
  const errors = problem.more?.errors ?? [];
  const details = errors.map((error) => error.detail);
  const name = errors.some((error) => error.pointer.startsWith("/adjustments")) && other === "match" ? "adjustment" : other;
  fault(name, [problem.detail || problem.title || problem.message, ...details].filter(Boolean).join(" "));
}

function takeAway(rows) {
  const places = [];
  for (const { id, side } of rows) {
    const element = rowOf(side, id);
    if (!element) continue;
    document.getElementById(`beside-${id}`)?.remove();
    places.push({ element, parent: element.parentElement, next: element.nextElementSibling });
    element.remove();
  }
  drawEmpty();
  return places;
}

function putBack(places, version = "") {
  for (const { element, parent, next } of places.reverse()) {
    parent.insertBefore(element, next?.parentElement === parent ? next : null);
  }
  // Its version has grown meanwhile; without one, what is done to it next is done whatever it is.
  for (const { element } of places) element.dataset.version = version;
  drawEmpty();
}

function drawEmpty() {
  for (const list of page.querySelectorAll("[data-list]")) {
    const empty = page.querySelector(`[data-empty="${list.dataset.list}"]`);
    empty.hidden = list.querySelector(".line") !== null || page.querySelector(`[data-more="${list.dataset.list}"]`) !== null;
  }
}

function tell(message, { link, details = null, undo: action = null } = {}) {
  document.getElementById("outcome-text").replaceChildren(message, ...(details ? [details] : []));
  const anchor = document.getElementById("outcome-link");
  anchor.hidden = !link;
  if (link) anchor.href = `/console/${document.body.dataset.environment}/matches/${link}`;
  undo = action;
  const button = document.getElementById("undo");
  button.hidden = !action;
  outcome.hidden = false;
  outcome.focus();
  announce(message);
}

async function undoLast() {
  const action = undo;
  undo = null;
  if (!action) return;
  document.getElementById("undo").hidden = true;
  try {
    await action();
  } catch (problem) {
    // What got no answer can be undone still.
    tell(problem.detail || problem.title || problem.message, { undo: isRefusal(problem) ? null : action });
  }
}

// Candidates ---------------------------------------------------------------------------------------------------------

async function toggleCandidates(link) {
  const row = link.closest(".line");
  const open = document.getElementById(`beside-${row.dataset.id}`);
  if (open) {
    open.remove();
    link.setAttribute("aria-expanded", "false");
    return;
  }
  const beside = document.createElement("div");
  beside.id = `beside-${row.dataset.id}`;
  beside.className = "beside";
  beside.textContent = text("loading", page);
  row.append(beside);
  link.setAttribute("aria-expanded", "true");
  try {
    place(beside, await fragment(link.pathname + link.search));
    for (const button of beside.querySelectorAll("[data-choose-candidate]")) button.hidden = false;
  } catch {
    beside.textContent = text("failed", page);
  }
}

function ready(row) {
  for (const button of row.querySelectorAll("[data-set-aside]")) button.hidden = false;
  const box = row.querySelector(".line-choice");
  if (box) box.checked = chosen.has(row.dataset.id);
}

const more = moreRows(page, { ready, focusRow });

// Setting aside -----------------------------------------------------------------------------------------------------

const dialog = document.getElementById("aside");
const aside = dialog && new SetAside({
  rowOf, takeAway, putBack, tell, fault,
  forget: (id) => {
    chosen.delete(id);
    drawBar();
  },
});

/** Return the lines that can be set aside together; none while an item is chosen. */
function chosenLines() {
  const rows = [...chosen.values()];
  return rows.every((row) => row.side === "incoming") ? rows : [];
}

// Events ------------------------------------------------------------------------------------------------------------

function focusRow(row) {
  (row?.querySelector(".line-choice") ?? row?.querySelector(".line-main"))?.focus();
}

/** Go to the row above or below, or to the one beside on the other side. */
function moveFocus(row, key) {
  const { side } = row.dataset;
  const own = rowsOf(row.closest("[data-list]"));
  const at = own.indexOf(row);
  let target = null;
  if (key === "ArrowDown") target = own[at + 1];
  else if (key === "ArrowUp") target = own[at - 1];
  else if (side === (key === "ArrowLeft" ? "expected" : "incoming")) {
    const others = rowsOf(page.querySelector(`[data-list="${side === "incoming" ? "expected" : "incoming"}"]`));
    target = others[Math.min(at, others.length - 1)];
  }
  if (target) focusRow(target);
  return Boolean(target);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=checkbox]), select, textarea")) return;
  const row = event.target.closest(".line");
  if (row && event.key.startsWith("Arrow") && moveFocus(row, event.key)) event.preventDefault();
  else if (row && event.key === "c") row.querySelector("[data-candidates]")?.click();
  else if (row && event.key === "m" && bar && !bar.hidden) {
    event.preventDefault();
    document.getElementById("match-reason")?.focus();
  } else if (row && event.key === "s" && aside && row.dataset.side === "incoming") {
    event.preventDefault();
    const lines = chosenLines();
    aside.ask(lines.some(({ id }) => id === row.dataset.id) ? lines : [said(row)]);
  } else if (event.key === "Escape" && chosen.size && !dialog?.open) clear();
}

page.addEventListener("change", (event) => {
  if (event.target.matches(".line-choice")) choose(said(event.target.closest(".line")), event.target.checked);
});
page.addEventListener("click", (event) => {
  const target = event.target.closest("[data-candidates], [data-more], [data-set-aside], [data-choose-candidate]");
  if (!target || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (target.matches("[data-candidates]")) toggleCandidates(target);
  else if (target.matches("[data-more]")) more(target);
  else if (target.matches("[data-set-aside]")) aside.ask([said(target.closest(".line"))]);
  else {
    choose(said(target.closest(".line")), true);
    choose(said(target.closest(".candidate")), true);
    document.getElementById("match-reason").focus();
  }
});
document.addEventListener("keydown", onKey);
bar?.addEventListener("submit", match);
bar?.addEventListener("input", () => {
  noFaults();
  drawRate(exchange([...chosen.values()]));
});
document.getElementById("match-clear")?.addEventListener("click", clear);
document.getElementById("undo")?.addEventListener("click", undoLast);
document.getElementById("aside-chosen")?.addEventListener("click", () => aside.ask(chosenLines()));
for (const row of page.querySelectorAll(".line")) ready(row);
if (bar && page.dataset.former) {
  for (const row of page.querySelectorAll(".line")) choose(said(row), true);
  const select = document.getElementById("match-adjustment");
  const was = [...select.options].find((option) => option.value === page.dataset.former && !option.disabled);
  if (was) was.selected = true;
  document.getElementById("match-reason").focus();
}
