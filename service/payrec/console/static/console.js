// What every page has: announcements, the dialog of a session that is over, texts of strangers, and the switch.
const texts = document.getElementById("console-texts");
const locale = document.body.dataset.locale || "en";
const { decimal, group, minus } = document.body.dataset;
const SIGNS = { decimal, group };
const MARKS_MAX = 4;
const LISTED_MAX = 5;

/** Return one of the layout's texts, or one of an element that has `data-...` texts of its own page. */
export function text(name, holder = texts) {
  return holder?.dataset[name] ?? "";
}

/** Return a text with its parameters, `{name}`, filled in; one that is not given stays as it is written. */
export function filled(template, values) {
  return template.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

/** Return a number as the server writes it: in these digits, in groups also where there are only four, with its signs. */
function written(size, digits) {
  const kind = { numberingSystem: "latn", useGrouping: "always", minimumFractionDigits: digits, maximumFractionDigits: digits };
  const parts = new Intl.NumberFormat(locale, kind).formatToParts(size);
  return parts.map(({ type, value }) => SIGNS[type] ?? value).join("");
}

/** Return a count, which may be a BigInt, as the locale writes it. */
export function number(count) {
  return written(count, 0);
}

/** Return minor units, a BigInt, as the locale writes them, with their currency: 1,234.50 EUR. */
export function money(minor, currency, exponent) {
  const digits = (minor < 0n ? -minor : minor).toString().padStart(exponent + 1, "0");
  // As a string, because an amount may have more digits than a number.
  const plain = exponent ? `${digits.slice(0, -exponent)}.${digits.slice(-exponent)}` : digits;
  return `${minor < 0n ? minus : ""}${written(plain, exponent)}\u00a0${currency}`;
}

/** Return a text of an element that counts: that for one, or that for several, with its parameters filled in. */
export function counted(name, count, holder, parameters = {}) {
  const form = count === 1 ? "One" : "Other";
  return filled(text(`${name}${form}`, holder), { count: number(count), ...parameters });
}

/** Return a list of entries, each of nodes and texts: the first of them, and how many more there are, as `more` says it. */
export function firstOf(entries, more) {
  const left = entries.length - LISTED_MAX;
  const list = document.createElement("ul");
  for (const parts of left > 0 ? [...entries.slice(0, LISTED_MAX), [more(left)]] : entries) {
    const entry = document.createElement("li");
    entry.append(...parts.map((part) => (typeof part === "string" ? part : part.cloneNode(true))));
    list.append(entry);
  }
  return list;
}

/** Say something to everybody, also to who hears the page. */
export function announce(message, { isAlert = false } = {}) {
  const region = document.getElementById(isAlert ? "alert" : "live");
  const other = document.getElementById(isAlert ? "live" : "alert");
  other.textContent = "";
  region.textContent = "";
  // An empty region first: the same words twice are two announcements.
  requestAnimationFrame(() => { region.textContent = message; });
}

const CHANNEL = "payrec-console";

/** Tell the tabs that wait for a session that there is one, and whose. */
export function tellSignedIn(user) {
  const channel = new BroadcastChannel(CHANNEL);
  channel.postMessage({ signedIn: user });
  channel.close();
}

// Who signs in by another way than the link of the dialog comes to a page as well, and has a session there.
if (document.body.dataset.user) tellSignedIn(document.body.dataset.user);

let isGivenUp = false;

/** Ask who leaves the page, until what is returned is called: nobody would hear what became of what is under way. */
export function keepPage() {
  const stay = (event) => { if (!isGivenUp) event.preventDefault(); };
  window.addEventListener("beforeunload", stay);
  return () => window.removeEventListener("beforeunload", stay);
}

let waiting = null;

/** Ask to sign in again, and return when the same user has; the page stays as it is. */
export function sessionIsBack() {
  waiting ??= new Promise((resolve, reject) => {
    const dialog = document.getElementById("session-over");
    const channel = new BroadcastChannel(CHANNEL);
    const end = (settle, value) => {
      channel.close();
      dialog.close();
      waiting = null;
      settle(value);
    };
    channel.onmessage = ({ data }) => {
      if (data.signedIn === document.body.dataset.user) end(resolve);
      else if (data.signedIn) {
        announce(text("somebodyElse"), { isAlert: true });
        isGivenUp = true;
        location.reload();
      }
    };
    dialog.oncancel = dialog.querySelector("[data-close]").onclick = () => {
      end(reject, Object.assign(new Error("signed out"), { status: 401, code: "signed_out" }));
    };
    dialog.showModal();
  });
  return waiting;
}

/** Return an element with a text of a file or of a client, in which nothing is hidden; as the server's filter does. */
export function foreign(value, { length = 160 } = {}) {
  const whole = isolated(value ?? "");
  if ((value ?? "").length <= length) return whole;
  const details = document.createElement("details");
  details.className = "foreign-long";
  const summary = document.createElement("summary");
  const more = document.createElement("span");
  more.className = "more";
  more.textContent = text("allOfIt");
  summary.append(isolated(`${Array.from(value).slice(0, length).join("")}…`), " ", more);
  details.append(summary, whole);
  return details;
}

function isolated(value) {
  const bdi = document.createElement("bdi");
  bdi.className = "foreign";
  let plain = "";
  let marks = 0;
  for (const character of value) {
    marks = /\p{Mn}|\p{Me}/u.test(character) ? marks + 1 : 0;
    const isHidden = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/u.test(character) && !"\n\t".includes(character);
    if (!isHidden && marks <= MARKS_MAX) {
      plain += character;
      continue;
    }
    const shown = document.createElement("span");
    shown.className = "hidden-character";
    shown.textContent = nameOf(character.codePointAt(0));
    bdi.append(plain, shown);
    plain = "";
  }
  bdi.append(plain);
  return bdi;
}

function nameOf(code) {
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  return code === 0x7f ? "\u2421" : `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

// What a script does that has not come, nothing else does: its buttons are there, and whoever presses them hears nothing.
for (const { src } of document.querySelectorAll("script[type=module]")) {
  import(src).catch(() => announce(text("scriptFailed"), { isAlert: true }));
}

for (const details of document.querySelectorAll("details.switch")) {
  details.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && details.open) {
      details.open = false;
      details.querySelector("summary").focus();
    }
  });
  details.addEventListener("focusout", (event) => {
    if (!details.contains(event.relatedTarget)) details.open = false;
  });
}

// What the browser has kept whole is as it was when it was left: what was open then, and who was signed in.
window.addEventListener("pageshow", ({ persisted }) => { if (persisted) location.reload(); });

// All of this has run: until then a page says, after a while, that its buttons do nothing.
document.getElementById("not-ready")?.remove();
