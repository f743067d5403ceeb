// A file is chosen or dropped, looked at before anything is stored, corrected where it was read wrongly, and uploaded.
import { announce, filled, foreign, money, number } from "./console.js";
import { corrections, dialectWith, merged, showDialect } from "./dialect.js";
import { change, fragment, isRefusal, newIdempotencyKey, parsedPage, rest } from "./rest.js";
import { send } from "./upload.js";

const ACCOUNTS_ASKED = 20;
const LINES_SHOWN = 20;
const PROBLEMS_SHOWN = 50;
const STATEMENTS_SHOWN = 50;
const UPLOAD = "/incoming-transactions/upload";

const at = (id) => document.getElementById(id);
const form = at("upload");
const texts = at("texts").dataset;
const exponents = JSON.parse(form.dataset.exponents);
const days = new Intl.DateTimeFormat(document.body.dataset.locale || "en", { dateStyle: "medium", timeZone: "UTC", calendar: "gregory", numberingSystem: "latn" });

let profile = {};
let given = {};
let question = null;
let format = "auto";
let going = null;
let uploadKey = null;
let looked = "";
let files = [];
let current = 0;

function options() {
  const found = { ...given };
  for (const name of ["dataSourceId", "account", "currency"]) {
    const value = form.elements[name].value.trim();
    if (value && !(name in found)) found[name] = value;
  }
  if (Object.keys(profile).length) found.profile = JSON.stringify(profile);
  return found;
}

function body() {
  const data = new FormData();
  for (const [name, value] of Object.entries(options())) data.append(name, value);
  // Last, so that whoever reads the form as it comes knows everything of the file before.
  data.append("file", files[current]);
  return data;
}

async function sent(path, key, told) {
  going = new AbortController();
  clearRefusal();
  at("progress").hidden = false;
  at("stop").hidden = false;
  for (const button of document.querySelectorAll(".upload .button")) button.disabled = button.id !== "stop";
  announce(told);
  at("progress-text").textContent = told;
  at("progress-bar").value = 0;
  try {
    return await send(path, body(), {
      idempotencyKey: key,
      signal: going.signal,
      progress: (share) => {
        at("progress-bar").value = share * 100;
        at("progress-text").textContent = share < 1 ? filled(texts.percent, { percent: Math.floor(share * 100) }) : texts.waiting;
        if (share === 1) at("progress-bar").removeAttribute("value");
      },
    });
  } finally {
    going = null;
    at("progress").hidden = true;
    at("stop").hidden = true;
    for (const button of document.querySelectorAll(".upload .button")) button.disabled = false;
  }
}

async function preview() {
  const file = files[current];
  if (!file) return undefined;
  if (file.size > Number(form.dataset.bytesMax)) return refuse(texts.tooLarge);
  if (file.size === 0) return refuse(texts.empty);
  uploadKey = null;
  try {
    const answer = await sent(`${UPLOAD}/preview`, null, texts.reading);
    show(answer.body);
  } catch (problem) {
    at("preview").hidden = true;
    refused(problem);
  }
}

/** Look again where something was changed since the preview: nothing is stored as what nobody has seen. */
async function lookedAgain() {
  const changes = corrections();
  if (looked === JSON.stringify(options()) && !Object.keys(changes).length) return false;
  profile = merged(profile, changes);
  await preview();
  at("preview-changed").hidden = false;
  return true;
}

async function upload() {
  if (await lookedAgain()) return undefined;
  // The same file with the same options again is one action, however often it is tried.
  uploadKey ??= newIdempotencyKey();
  try {
    const answer = await sent(UPLOAD, uploadKey, texts.sending);
    announce(texts.sent);
    if (files.length > 1) {
      renewList();
      return following();
    }
    // What is not made is there already: these bytes had come before.
    location.assign(`${form.dataset.imports}/${answer.body.id}${answer.status === 200 ? "#again" : ""}`);
  } catch (problem) {
    if (isRefusal(problem)) uploadKey = null;
    refused(problem);
  }
  return undefined;
}

/** Go on with the next file of several; behind the last one, show what came of all. */
function following() {
  current += 1;
  if (current < files.length) return begin();
  if (files.length > 1) return location.assign(form.dataset.imports);
  at("preview").hidden = true;
  return form.elements.file.focus();
}

/** Show what has come in the list as well; where that fails, it stands there when the page is looked at again. */
async function renewList() {
  const page = await fragment(form.dataset.imports, { attempts: 1 }).catch(() => null);
  const list = page && parsedPage(page).getElementById("files");
  if (list) at("files").replaceWith(document.adoptNode(list));
}

const numberTold = () => (files.length > 1 ? filled(texts.ofSeveral, { number: number(current + 1), count: number(files.length) }) : "");

/** Say which of several files it is that something is said of, and offer to go on without it. */
function nameRefused() {
  const isOneOfSeveral = files.length > 1;
  at("refused-file").replaceChildren(...(isOneOfSeveral ? [numberTold(), ": ", foreign(files[current].name)] : []));
  at("refused-file").hidden = !isOneOfSeveral;
  at("leave-out").hidden = !isOneOfSeveral;
}

function clearRefusal() {
  for (const id of ["refused-file", "refused", "question", "leave-out"]) at(id).hidden = true;
}

function refused(problem) {
  if (problem.code === "stopped" || problem.code === "signed_out") return announce(texts.stopped);
  if (problem.status === 0 || problem.status === undefined) return refuse(texts.lost);
  const asked = problem.more?.question;
  const fields = (problem.more?.errors ?? []).map((error) => `${error.pointer}: ${error.detail}`);
  if (problem.code === "unreadable_file" && !asked) fields.push(texts.unreadable);
  // A question says by itself what is missing; only where its answer was none there is more to say.
  if (!asked || asked.option === question?.option) refuse(problem.detail || problem.title || problem.code, fields);
  if (asked) ask(asked);
  return undefined;
}

function refuse(message, fields = []) {
  at("refused-text").replaceChildren(foreign(message, { length: 500 }));
  at("refused-fields").replaceChildren(...fields.map((field) => {
    const item = document.createElement("li");
    item.append(foreign(field, { length: 300 }));
    return item;
  }));
  nameRefused();
  at("refused").hidden = false;
  at("refused").focus();
}

function ask(asked) {
  question = asked;
  at("question-text").textContent = asked.text;
  at("question-answers").replaceChildren(...asked.alternatives.map((alternative, place) => {
    const label = document.createElement("label");
    const choice = document.createElement("input");
    Object.assign(choice, { type: "radio", name: "alternative", value: String(place), checked: place === 0 });
    const said = typeof alternative.value === "string" ? [foreign(alternative.value), " · "] : [];
    label.append(choice, " ", ...said, foreign(alternative.example, { length: 300 }));
    return label;
  }));
  at("question-other").hidden = !asked.others || asked.option === "profile";
  nameRefused();
  at("question").hidden = false;
  at("question").focus();
}

function answer() {
  const other = at("other").value.trim();
  const chosen = document.querySelector("[name=alternative]:checked");
  const value = other || (chosen && question.alternatives[Number(chosen.value)].value);
  at("other").value = "";
  if (value === null || value === undefined) return;
  if (question.option === "profile") profile = merged(profile, value);
  else given = { ...given, [question.option]: value };
  preview();
}

function show(read) {
  format = read.format;
  looked = JSON.stringify(options());
  at("preview-changed").hidden = true;
  const facts = {
    name: read.file.name,
    format: read.formatVersion?.startsWith(read.format) ? read.formatVersion : [read.format, read.formatVersion].filter(Boolean).join(" "),
    encoding: read.encoding ?? "",
    ...Object.fromEntries(Object.entries(read.counts).map(([name, count]) => [name, number(count)])),
  };
  for (const place of document.querySelectorAll("[data-fact]")) place.replaceChildren(foreign(facts[place.dataset.fact]));
  at("preview-number").textContent = numberTold();
  showStatements(read.statements);
  showDialect(read.dialect);
  showProblems(read.problems);
  showLines(read);
  at("preview").hidden = false;
  at("preview").focus();
  announce(texts.previewed);
}

function showStatements(statements) {
  at("preview-statements").querySelector("tbody").replaceChildren(...statements.slice(0, STATEMENTS_SHOWN).map((statement) => {
    const [opening, closing] = ["opening", "closing"].map((type) => statement.balances.find((balance) => balance.type === type));
    const check = document.createElement("span");
    check.className = { ok: "badge badge-good", mismatch: "badge badge-bad" }[statement.checks.balance] ?? "badge";
    check.textContent = texts[`check${{ ok: "Ok", mismatch: "Mismatch" }[statement.checks.balance] ?? "NotAvailable"}`];
    return row([
      foreign(statement.account?.id ?? (form.elements.account.value || texts.noAccount)),
      day(statement.firstBookingDate),
      day(statement.lastBookingDate),
      number(statement.transactionCount),
      opening ? amount(opening) : texts.unknown,
      closing ? amount(closing) : texts.unknown,
      check,
    ], [3, 4, 5]);
  }));
  tellNewAccounts([...new Set(statements.map((statement) => statement.account?.id).filter(Boolean))]);
}

/** Tell of accounts that nothing has come of yet: a file of somebody else's account looks like any other. */
async function tellNewAccounts(named) {
  const place = at("preview-new-accounts");
  place.hidden = true;
  const file = files[current];
  const known = await Promise.all(named.slice(0, ACCOUNTS_ASKED).map(async (identifier) => {
    const { body } = await rest("GET", `/accounts?${new URLSearchParams({ identifier })}`, { attempts: 1 });
    return body.data.length > 0;
  })).catch(() => null);
  // Who may not read accounts, or has gone on to the next file, is told nothing.
  if (known === null || file !== files[current] || known.every(Boolean)) return;
  const unknown = named.filter((_, place_) => known[place_] === false);
  place.replaceChildren(foreign(filled(texts.newAccount, { account: unknown.join(", ") }), { length: 400 }));
  place.hidden = false;
}

function showProblems(problems) {
  at("preview-problems").hidden = !problems.length;
  at("preview-problems").querySelector("tbody").replaceChildren(...problems.slice(0, PROBLEMS_SHOWN).map((problem) => {
    const badge = document.createElement("span");
    badge.className = { error: "badge badge-bad", warning: "badge badge-warn" }[problem.severity] ?? "badge";
    badge.textContent = texts[problem.severity];
    return row([String(problem.line ?? ""), badge, foreign(problem.detail, { length: 300 })], [0]);
  }));
}

function showLines(read) {
  const lines = read.statements.flatMap((statement) => statement.entries);
  const shown = lines.slice(0, LINES_SHOWN);
  at("preview-lines").querySelector("tbody").replaceChildren(...shown.map((line) => row([
    String(line.line ?? line.index + 1),
    day(line.bookingDate),
    amount(line),
    foreign(line.counterpartyName),
    foreign(line.remittance),
  ], [0, 2])));
  const count = read.statements.reduce((sum, statement) => sum + statement.transactionCount, 0);
  at("preview-more").hidden = count <= shown.length;
  at("preview-more").textContent = filled(texts.shown, { shown: number(shown.length), count: number(count) });
}

function day(date) {
  return date ? days.format(new Date(`${date}T00:00:00Z`)) : "";
}

/** Return an amount with the digits that banks give its currency; what browsers know is for display, and not the same. */
function amount({ amountMinor, currency, direction }) {
  const minor = BigInt(amountMinor);
  return money(direction === "debit" ? -minor : minor, currency, exponents[currency] ?? 2);
}

function row(cells, numeric) {
  const made = document.createElement("tr");
  for (const [place, cell] of cells.entries()) {
    const column = document.createElement("td");
    if (numeric.includes(place)) column.className = "amount";
    column.append(cell);
    made.append(column);
  }
  return made;
}

async function saveProfile() {
  const name = at("profile-name").value.trim();
  if (!name) return at("profile-name").focus();
  const source = { name, kind: "upload", format, profile: dialectWith(corrections()) };
  try {
    const { body: saved } = await change("/data-sources", source);
    // An option has text alone, so what hides in the name is named there as well.
    form.elements.dataSourceId.add(new Option(foreign(saved.name, { length: Infinity }).textContent, saved.id));
    at("profile-saved").textContent = texts.saved;
  } catch (problem) {
    refused(problem);
  }
  return undefined;
}

function begin() {
  profile = {};
  given = {};
  question = null;
  at("preview").hidden = true;
  preview();
}

function beginAll() {
  files = [...form.elements.file.files];
  current = 0;
  begin();
}

form.addEventListener("submit", (event) => { event.preventDefault(); beginAll(); });
form.elements.file.addEventListener("change", () => {
  at("preview").hidden = true;
  clearRefusal();
});
at("leave-out").addEventListener("click", following);
at("stop").addEventListener("click", () => going?.abort());
at("answer").addEventListener("click", answer);
at("send").addEventListener("click", upload);
at("discard").addEventListener("click", following);
at("save-profile")?.addEventListener("click", saveProfile);
at("dialect").addEventListener("submit", (event) => {
  event.preventDefault();
  profile = merged(profile, corrections());
  preview();
});

const drop = at("drop");
for (const name of ["dragenter", "dragover"]) {
  drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("is-over"); });
}
for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("is-over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  if (!event.dataTransfer.files.length) return undefined;
  // Two files at once would be taken for one another: what is shown of one would be said of the other.
  if (going) return announce(texts.busy, { isAlert: true });
  form.elements.file.files = event.dataTransfer.files;
  beginAll();
  return undefined;
});
// A file that misses the place would be opened in the place of the page.
for (const name of ["dragover", "drop"]) window.addEventListener(name, (event) => event.preventDefault());
