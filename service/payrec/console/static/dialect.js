// How a table was read, as fields that a person corrects: only what differs from what was detected is sent.
const form = document.getElementById("dialect");
const members = () => form.querySelectorAll("[data-member]");
const columns = () => form.querySelectorAll("[data-column]");

let detected = {};

/** Show a detected dialect; null, of what is no table, hides the form. */
export function showDialect(dialect) {
  form.hidden = dialect === null;
  detected = dialect ?? {};
  for (const field of members()) {
    const value = detected[field.dataset.member];
    const shown = value === null || value === undefined ? "" : String(value);
    if (field.tagName === "SELECT" && ![...field.options].some((option) => option.value === shown)) {
      field.add(new Option(shown, shown));
    }
    setField(field, shown);
  }
  for (const field of columns()) setField(field, columnText(detected.columns?.[field.dataset.column]));
}

/** Return what the fields say otherwise than the dialect that is shown; null takes a member away. */
export function corrections() {
  const found = {};
  for (const field of members()) {
    if (field.value.trim() === field.dataset.shown) continue;
    found[field.dataset.member] = valueOf(field);
  }
  const changed = [...columns()].filter((field) => field.value.trim() !== field.dataset.shown);
  if (changed.length) found.columns = Object.fromEntries(changed.map((f) => [f.dataset.column, columnOf(f)]));
  return found;
}

/** Return the whole dialect with the corrections, to be kept as a profile. */
export function dialectWith(changes) {
  return merged(detected, changes);
}

/** Merge a patch into a document, as RFC 7396 has it. */
export function merged(document, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const found = document !== null && typeof document === "object" && !Array.isArray(document) ? { ...document } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete found[name];
    else found[name] = merged(found[name], value);
  }
  return found;
}

function setField(field, shown) {
  field.value = shown;
  field.dataset.shown = field.value.trim();
  field.classList.remove("was-changed");
}

function valueOf(field) {
  const value = field.tagName === "SELECT" ? field.value : field.value.trim();
  if (value === "") return null;
  return field.dataset.kind === "number" ? Number(value) : value;
}

function columnText(value) {
  if (value === undefined || value === null) return "";
  return Array.isArray(value) ? value.join(" + ") : String(value);
}

function columnOf(field) {
  const parts = field.value.split(" + ").map((part) => part.trim()).filter(Boolean);
  const named = parts.map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  if (!named.length) return null;
  return field.dataset.column === "remittance" ? named : named[0];
}

form?.addEventListener("input", ({ target }) => {
  if (target.dataset.shown !== undefined) target.classList.toggle("was-changed", target.value.trim() !== target.dataset.shown);
});
