// Several matches at once: which of them are selected, and what became of each.
import { firstOf } from "./console.js";
import { decidedOf, isLate } from "./decided.js";
import { counted, say, totals } from "./review_texts.js";
import { changeEach, isRefusal } from "./rest.js";

const WANTED = { accept: ["accepted", "pending_approval"], reject: ["rejected"] };

export class Selection {
  #selected = new Map();

  get size() {
    return this.#selected.size;
  }

  get ids() {
    return [...this.#selected.keys()];
  }

  /** Return how many are selected, with their totals by currency. */
  get told() {
    return counted("selected", this.size, { totals: totals(this.#selected.values()) });
  }

  toggle(row) {
    const box = row?.querySelector("[data-select]");
    if (box) this.select(row, !box.checked);
  }

  select(row, isSelected) {
    const box = row?.querySelector("[data-select]");
    if (!box) return;
    box.checked = isSelected;
    const { id, minor, currency, exponent, version } = row.dataset;
    if (isSelected) this.#selected.set(id, { id, minor: BigInt(minor), currency, exponent: Number(exponent), version });
    else this.#selected.delete(id);
    this.#tell();
  }

  clear() {
    this.#selected.clear();
    for (const box of document.querySelectorAll("[data-select]:checked")) box.checked = false;
    this.#tell();
  }

  /** Let the box of all say whether all that are listed now are selected: more may have come. */
  listed() {
    const all = document.getElementById("select-all");
    if (all) all.checked = this.size > 0 && !document.querySelector("[data-select]:not(:checked)");
  }

  /** Take note of what somebody looks at: from now on it is decided as it is now. */
  saw({ id, version }) {
    const row = rowOf(id);
    if (row) row.dataset.version = version;
    if (this.#selected.has(id)) this.#selected.get(id).version = version;
  }

  /** Take out what has left the queue. */
  leave(ids) {
    if (ids.filter((id) => this.#selected.delete(id)).length) this.#tell();
  }

  /**
   * Accept or reject each by itself, with its version. Return {mine, others, changed, failed, untold}: those that are
   * decided as wanted, by others, not any more what was looked at, refused otherwise, and those without an answer.
   */
  async decide(verb, reason, user) {
    const rows = [...this.#selected.values()];
    const body = reason ? { reason } : {};
    const actions = rows.map(({ id, version }) => ({ path: `/matches/${id}/${verb}`, body, version }));
    const became = await changeEach(actions, (done) => {
      document.getElementById("selection-total").textContent = counted("deciding", rows.length, { done });
    });
    const found = { mine: [], others: [], changed: [], failed: [], untold: [] };
    for (const [index, { answer, problem }] of became.entries()) {
      const { id } = rows[index];
      if (answer) found.mine.push({ id, status: answer.body.status });
      else if (!problem || !isRefusal(problem)) found.untold.push({ id, why: problem?.message ?? "" });
      else if (isLate(problem)) this.#late(found, verb, user, { id, problem, decided: await decidedOf(id) });
      else found.failed.push({ id, why: problem.message });
    }
    this.#tell();
    return found;
  }

  #late(found, verb, user, { id, problem, decided }) {
    const { status, by } = decided;
    // What got no answer the last time may have been done all the same, and is ours then.
    if (by === `user:${user}` && WANTED[verb].includes(status)) found.mine.push({ id, status });
    else if (status !== "proposed") found.others.push({ id, ...decided });
    else if (problem.status === 412) found.changed.push({ id, why: say("changed") });
    else found.failed.push({ id, why: problem.message });
  }

  #tell() {
    document.getElementById("selection").hidden = !this.size;
    document.getElementById("selection-total").textContent = this.size ? this.told : "";
    this.listed();
  }
}

/** Return what became of several, in words: how many are ours, who was first with how many, and what is left. */
export function summary({ mine, others, changed, failed, untold }) {
  const told = [];
  if (mine.length || !others.length) told.push(counted("bulk_done", mine.length));
  const first = others.filter(({ who }) => who);
  const names = new Map();
  for (const { who } of first) names.set(who, (names.get(who) ?? 0) + 1);
  const who = names.size > 1 ? [...names].map(([name, count]) => `${name} (${count})`).join(", ") : [...names.keys()].join();
  if (first.length) told.push(counted("bulk_first", first.length, { who }));
  if (others.length > first.length) told.push(counted("bulk_gave_way", others.length - first.length));
  const refused = changed.length + failed.length;
  if (refused) told.push(counted("bulk_refused", refused));
  if (untold.length) told.push(counted("bulk_untold", untold.length, { why: untold.find(({ why }) => why)?.why ?? "" }));
  return told.join(" ");
}

/** Return as a list which of several were not decided as wanted, and why: the first of them; null where there is none. */
export function reasons({ others, changed, failed }) {
  const all = [...changed, ...failed, ...others];
  if (!all.length) return null;
  const entries = all.map(({ id, why, notice }) => {
    const parts = [...(rowOf(id)?.querySelectorAll(".queue-name, .amount") ?? [])];
    return [...parts.flatMap((part) => [...part.childNodes, " "]), ...(notice ?? [why])];
  });
  return firstOf(entries, (count) => counted("bulk_more", count));
}

function rowOf(id) {
  return document.getElementById(`queue-${id}`)?.closest(".queue-row");
}
