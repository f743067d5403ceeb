// Setting lines aside, one or all that are chosen: each by itself, with its version, and ignored or classified alike.
import { announce, counted, firstOf, money, text } from "./console.js";
import { becameOf, isLate } from "./decided.js";
import { sums } from "./manual_match.js";
import { changeEach, isRefusal } from "./rest.js";

const dialog = document.getElementById("aside");
const form = document.getElementById("aside-form");

/** What the page does besides: `view` has rowOf, takeAway, putBack, forget, tell and fault. */
export class SetAside {
  #view;
  #rows = [];
  #done = [];
  #others = [];
  #isSending = false;

  constructor(view) {
    this.#view = view;
    form.addEventListener("submit", (event) => this.#send(event));
    form.addEventListener("change", () => this.#drawKind());
    document.getElementById("aside-cancel").addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => this.#close());
  }

  /** Ask what these lines are. */
  ask(rows) {
    // What is under way goes on when the dialog is closed, and would take these for its own.
    if (this.#isSending) return announce(text("busy", form), { isAlert: true });
    this.#rows = rows;
    form.reset();
    this.#drawKind();
    this.#clearFaults();
    this.#drawLines();
    dialog.showModal();
    return undefined;
  }

  #drawKind() {
    document.getElementById("aside-classified").hidden = form.elements.what.value !== "classify";
  }

  #clearFaults() {
    for (const name of ["aside", "category", "aside-reason"]) this.#view.fault(name, "");
  }

  #drawLines() {
    const holder = document.getElementById("aside-line");
    const count = this.#rows.length;
    document.getElementById("aside-title").textContent = counted("title", count, form);
    if (count === 1) {
      holder.replaceChildren(...this.#name(this.#rows[0]));
      return;
    }
    const totals = sums(this.#rows).map((sum) => money(sum.lines, sum.currency, sum.exponent));
    const list = listed(this.#rows.map((row) => this.#name(row)));
    holder.replaceChildren(counted("lines", count, form, { totals: totals.join(" + ") }), list);
  }

  /** Return a line as nodes: whose it is, what the bank says of it, and its amount. */
  #name({ id, side }) {
    const row = this.#view.rowOf(side, id);
    const [party, words] = [".line-party", ".line-words"].map((name) => row.querySelector(name).cloneNode(true));
    party.removeAttribute("id");
    return [party, " ", words, ` ${row.querySelector(".line-amount").textContent.trim()}`];
  }

  async #send(event) {
    event.preventDefault();
    if (this.#isSending) return;
    const verb = form.elements.what.value;
    const body = this.#body(verb);
    if (!body) return;
    this.#isSending = true;
    document.getElementById("aside-send").setAttribute("aria-disabled", "true");
    try {
      await this.#sendEach(verb, body);
    } finally {
      this.#isSending = false;
      document.getElementById("aside-send").removeAttribute("aria-disabled");
    }
  }

  /** Return what is sent of each; null where something is missing, which is told beside its field. */
  #body(verb) {
    const reason = form.elements.reason.value.trim();
    // Codes are small words; who types "Bank fee" means bank_fee.
    const category = form.elements.category.value.trim().toLowerCase().replace(/[\s-]+/g, "_");
    const isWord = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/.test(category);
    this.#clearFaults();
    this.#view.fault("aside-reason", verb === "ignore" && !reason ? text("faultReason", form) : "");
    this.#view.fault("category", verb === "classify" && !isWord ? text("faultCategory", form) : "");
    if (verb === "ignore" ? !reason : !isWord) {
      form.elements[verb === "ignore" ? "reason" : "category"].focus();
      return null;
    }
    if (verb === "ignore") return { reason };
    const postingCode = form.elements.postingCode.value.trim();
    return { category, ...(reason ? { reason } : {}), ...(postingCode ? { postingCode } : {}) };
  }

  async #sendEach(verb, body) {
    const rows = this.#rows;
    const names = rows.map((row) => this.#name(row));
    const actions = rows.map(({ id, version }) => ({ path: `/incoming-transactions/${id}/${verb}`, body, version }));
    const became = await changeEach(actions, (done) => {
      if (rows.length > 1) announce(counted("sending", rows.length, form, { done }));
    });
    const failed = [];
    const left = [];
    for (const [index, { answer, problem }] of became.entries()) {
      const row = rows[index];
      if (answer) this.#done.push({ row, name: names[index], places: this.#takeAway(row) });
      else if (problem && isLate(problem)) {
        const { isOpen, version, told } = await becameOf(row.id);
        if (isOpen) {
          // That it has changed is told, so who tries again does it to what it is now.
          row.version = version;
          failed.push([...names[index], ` ${problem.message}`]);
          left.push(row);
        } else {
          this.#takeAway(row);
          this.#others.push([...names[index], " ", ...told]);
        }
      } else {
        if (problem && isRefusal(problem)) failed.push([...names[index], ` ${reasonOf(problem)}`]);
        left.push(row);
      }
    }
    this.#rows = left;
    if (!left.length) {
      // Who has closed it meanwhile is told as well.
      if (dialog.open) dialog.close();
      else this.#close();
      return;
    }
    if (!dialog.open) dialog.showModal();
    this.#drawLines();
    const told = tally({ done: this.#done.length, left: left.length }, became);
    this.#view.fault("aside", told, failed.length ? listed(failed) : null);
  }

  #takeAway(row) {
    this.#view.forget(row.id);
    return this.#view.takeAway([row]);
  }

  /** Tell, when the dialog is away, what was done, and what others had done before. */
  #close() {
    const [done, others] = [this.#done, this.#others];
    this.#done = [];
    this.#others = [];
    if (done.length || others.length) {
      this.#view.tell(tally({ done: done.length, first: others.length }), { details: others.length ? listed(others) : null, undo: done.length ? () => this.#undo(done) : null });
    }
  }

  async #undo(done) {
    const became = await changeEach(done.map(({ row }) => ({ path: `/incoming-transactions/${row.id}/restore`, body: {} })));
    const left = [];
    const failed = [];
    let count = 0;
    for (let index = done.length - 1; index >= 0; index -= 1) {
      const { answer, problem } = became[index];
      if (answer) {
        this.#view.putBack(done[index].places, answer.body.version);
        count += 1;
      } else if (problem && isRefusal(problem)) failed.unshift([...done[index].name, ` ${reasonOf(problem)}`]);
      else left.unshift(done[index]);
    }
    this.#view.tell(tally({ undone: count, notUndone: failed.length }, became), { details: failed.length ? listed(failed) : null, undo: left.length ? () => this.#undo(left) : null });
  }
}

function reasonOf(problem) {
  const details = (problem.more?.errors ?? []).map((error) => error.detail);
  return [problem.message, ...details].join(" ");
}

function listed(entries) {
  return firstOf(entries, (count) => counted("more", count, form));
}

/** Return how many there are of each, of those that there are, and why one got no answer, where one did not. */
function tally(counts, became = []) {
  const told = Object.entries(counts).filter(([, count]) => count).map(([name, count]) => counted(name, count, form));
  const lost = became.find(({ problem }) => problem && !isRefusal(problem))?.problem.message;
  return [...told, ...(lost ? [lost] : [])].join(" ");
}
