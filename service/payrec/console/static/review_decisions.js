// Decisions of the review page: each goes through the REST interface, with the version that was looked at.
import { announce, money } from "./console.js";
import { decidedOf, isLate } from "./decided.js";
import { reasons, Selection, summary } from "./review_selection.js";
import { counted, countDown, minorOf, put, say, typedOf } from "./review_texts.js";
import { change, rest } from "./rest.js";

const UNDONE_MAX = 50;
const KINDS = { accepted: "accepted", pending_approval: "pending", rejected: "rejected" };

export class Decisions {
  #view;
  selection = new Selection();
  #busy = false;

  constructor(view) {
    this.#view = view;
    document.getElementById("split-rows")?.addEventListener("input", () => this.#splitTotal());
  }

  /** Show what can be done with what is shown now. */
  changed() {
    const shown = this.#view.article();
    const waits = shown?.dataset.status === this.#view.page.dataset.status;
    for (const name of ["accept", "reject", "split"]) {
      const button = document.querySelector(`[data-do="${name}"]`);
      if (button) button.disabled = !waits;
    }
    const undo = document.querySelector('[data-do="undo"]');
    if (undo) undo.disabled = this.#made().length === 0;
    if (shown) this.selection.saw(shown.dataset);
    return waits && this.#view.page.dataset.mayDecide === "yes";
  }

  async accept() {
    if (!this.changed()) return;
    const { id, version } = this.#view.article().dataset;
    const verb = this.#view.page.dataset.status === "proposed" ? "accept" : "approve";
    await this.#decide(id, () => change(`/matches/${id}/${verb}`, {}, { version }), verb === "approve" ? "approved" : "accepted");
  }

  async reject() {
    if (!this.changed()) return;
    const { id, version } = this.#view.article().dataset;
    const given = await this.#reason({ title: [say("reject_title")], what: this.#subject(), go: say("reject_go") });
    if (given === null) return;
    await this.#decide(id, () => change(`/matches/${id}/reject`, given ? { reason: given } : {}, { version }), "rejected");
  }

  /** Match what would fit instead; a proposal of its own is accepted as it is. */
  async pick(choice) {
    if (this.#view.page.dataset.status !== "proposed" || !this.changed()) return;
    if (!choice || choice.dataset.canPick !== "yes") {
      announce(say("no_choice"));
      return;
    }
    const { expected, incoming, match, minor, currency, exponent, isExact } = choice.dataset;
    const amount = money(BigInt(minor), currency, Number(exponent));
    const text = match ? "pick_text_proposed" : isExact === "yes" ? "pick_text" : "pick_text_rest";
    const title = put(say("pick_title"), { what: this.#named(incoming, choice) });
    const what = [...put(say("pick_with"), { what: this.#named(expected, choice) }), document.createElement("br"), say(text, { amount })];
    const given = await this.#reason({ title, what, go: say("pick_go"), isRequired: !match });
    if (given === null) return;
    const { id } = this.#view.article().dataset;
    const leg = { expectedTransactionId: expected, incomingTransactionId: incoming, amountMinor: Number(minor) };
    await this.#decide(id, async () => {
      if (!match) return change("/matches", { legs: [leg], reason: given });
      const { body: { version } } = await rest("GET", `/matches/${match}`);
      return change(`/matches/${match}/accept`, given ? { reason: given } : {}, { version });
    }, "picked");
  }

  /** Take the last decision of this window back. */
  async undo() {
    const made = this.#made();
    const last = made.at(-1);
    if (!last) {
      announce(say("nothing_to_undo"));
      return;
    }
    await this.#once(async () => {
      const verb = { accepted: "reverse", pending: "reject" }[last.kind];
      if (verb) await change(`/matches/${last.id}/${verb}`, { reason: say("undo_reason") });
      // Whatever was taken back is not proposed again, unless that is forgotten as well. If that gets no answer, it is
      // all that is left to do.
      this.#keep([...made.slice(0, -1), { ...last, kind: "rejected" }]);
      await rest("DELETE", `/matching/rejections/${last.id}`);
      this.#keep(made.slice(0, -1));
      const told = say(verb ? "undone" : "undone_rejection");
      const link = document.createElement("a");
      link.href = `/console/${document.body.dataset.environment}/unmatched?match=${last.id}`;
      link.textContent = say("by_hand");
      this.#outcome(told, link);
      announce(told);
    }, async (problem) => {
      if (problem.status !== 404 && problem.status !== 409) return this.#failed(problem);
      // What somebody else has taken back already is no longer ours to undo.
      this.#keep(made.slice(0, -1));
      const { notice } = problem.status === 409 ? await decidedOf(last.id) : { notice: [] };
      this.#failed(problem);
      if (notice.length) this.#outcome(say("second_was_later"), ...notice);
      return undefined;
    });
    this.changed();
  }

  /** Accept or reject all that is selected, each by itself and as it was looked at; what fails stays selected. */
  async bulk(verb) {
    if (!this.selection.size) return;
    const given = await this.#reason({
      title: [say(`${verb}_selected_title`)], what: [this.selection.told], go: verb === "accept" ? say("accept_selected_go") : say("reject_go"),
    });
    if (given === null) return;
    await this.#once(async () => {
      performance.mark("decision");
      this.#begun(this.selection.ids);
      const found = await this.selection.decide(verb, given, document.body.dataset.user);
      this.#begun([]);
      for (const { id, status } of found.mine) this.#did(id, KINDS[status]);
      const told = summary(found);
      const which = reasons(found);
      const gone = [...found.mine, ...found.others].map(({ id }) => id);
      this.selection.leave(gone);
      // Each leaves by itself, the one that is shown last: then there is one way on.
      const shown = this.#view.article()?.dataset.id;
      const others = gone.filter((id) => id !== shown);
      for (const id of others) document.querySelector(`.queue-row[data-id="${id}"]`)?.remove();
      countDown(others.length);
      if (gone.includes(shown)) await this.#view.leave(shown, told);
      else announce(told);
      for (const { id } of found.changed) await this.#view.refresh(id);
      if (gone.length !== found.mine.length || which || found.untold.length) this.#outcome(told, ...(which ? [which] : []));
      // What was pressed is not there any more.
      if (!this.selection.size && document.activeElement === document.body) document.getElementById("queue-scroll").focus();
    });
    this.changed();
  }

  /** Tell what became of what was being decided when this window was loaded anew, or left. */
  async tellOfBefore() {
    const begun = JSON.parse(sessionStorage.getItem(`${this.#view.placeKey}-begun`) ?? "[]");
    if (!begun.length) return;
    await this.#once(async () => {
      const found = { mine: [], others: [], changed: [], failed: [], untold: [] };
      for (const id of begun) {
        const decided = { id, ...(await decidedOf(id)) };
        if (decided.status === this.#view.page.dataset.status) continue;
        const isMine = decided.by === `user:${document.body.dataset.user}` && decided.status in KINDS;
        (isMine ? found.mine : found.others).push(decided);
      }
      for (const { id, status } of found.mine) this.#did(id, KINDS[status]);
      const left = begun.length - found.mine.length - found.others.length;
      const told = [counted("interrupted", begun.length), summary(found), ...(left ? [counted("undecided", left)] : [])];
      this.#outcome(told.join(" "));
      announce(told.join(" "));
    });
    this.changed();
  }

  /** Match other amounts: of the match's own pairs, and of what else would fit. */
  async split() {
    if (this.#view.page.dataset.status !== "proposed" || !this.changed()) return;
    const shown = this.#view.article();
    if (shown.dataset.canSplit !== "yes") {
      announce(say("split_not"));
      return;
    }
    const dialog = document.getElementById("split-dialog");
    const exponent = Number(shown.dataset.exponent);
    const pairs = [...shown.querySelectorAll(".leg")].map((leg) => leg.dataset);
    const others = [...shown.querySelectorAll('.choice[data-can-pick="yes"]')].map((choice) => ({ ...choice.dataset, minor: "0", choice }));
    document.getElementById("split-rows").replaceChildren(...[...pairs, ...others].map((pair) => this.#splitRow(pair, exponent)));
    this.#splitTotal();
    document.getElementById("split-title").replaceChildren(...put(say("split_title"), { what: this.#subject() }));
    const error = document.getElementById("split-error");
    error.hidden = true;
    const form = dialog.querySelector("form");
    form.reason.value = "";
    form.onsubmit = (event) => {
      if (event.submitter?.value !== "go") return;
      event.preventDefault();
      this.#splitGo(shown.dataset.id, exponent, form.reason.value, dialog).catch((problem) => {
        error.textContent = problem.message;
        error.hidden = false;
      });
    };
    dialog.showModal();
  }

  #splitRow(pair, exponent) {
    const row = document.getElementById("split-row").content.firstElementChild.cloneNode(true);
    const names = { line: pair.incoming, item: pair.expected };
    for (const [side, id] of Object.entries(names)) {
      const cell = row.querySelector(`[data-${side}]`);
      cell.id = `split-${side}-${id}-${pair.choice ? "other" : "own"}`;
      cell.append(...this.#named(id, pair.choice));
    }
    Object.assign(row.dataset, { expected: pair.expected, incoming: pair.incoming });
    const input = row.querySelector("[data-amount]");
    input.value = typedOf(pair.minor, exponent);
    input.setAttribute("aria-labelledby", [...row.querySelectorAll("[data-line], [data-item]")].map((cell) => cell.id).join(" "));
    return row;
  }

  #splitLegs(exponent) {
    return [...document.querySelectorAll("#split-rows tr")].map((row) => ({
      expectedTransactionId: row.dataset.expected,
      incomingTransactionId: row.dataset.incoming,
      minor: minorOf(row.querySelector("[data-amount]").value, exponent),
    }));
  }

  #splitTotal() {
    const shown = this.#view.article();
    const exponent = Number(shown.dataset.exponent);
    const taken = new Map();
    for (const { incomingTransactionId, minor } of this.#splitLegs(exponent)) {
      taken.set(incomingTransactionId, (taken.get(incomingTransactionId) ?? 0n) + (minor ?? 0n));
    }
    const told = [...taken].map(([id, minor]) => {
      const open = this.#view.item.querySelector(`[data-transaction="${CSS.escape(id)}"]`)?.dataset.open;
      if (open === undefined) return null;
      const left = BigInt(open) - minor;
      const amount = money(left < 0n ? -left : left, shown.dataset.currency, exponent);
      return say(left < 0n ? "split_over" : "split_left", { amount });
    });
    document.getElementById("split-total").textContent = told.filter(Boolean).join(" · ");
  }

  async #splitGo(id, exponent, reason, dialog) {
    const given = this.#splitLegs(exponent);
    if (given.some(({ minor }) => minor === null)) throw new Error(say("split_amount"));
    const legs = given.filter(({ minor }) => minor > 0n).map(({ minor, ...leg }) => ({ ...leg, amountMinor: Number(minor) }));
    if (!legs.length) throw new Error(say("split_nothing"));
    let refused = null;
    await this.#decide(id, async () => {
      const answer = await change("/matches", { legs, reason });
      dialog.close();
      return answer;
    }, "split_done", async (problem) => {
      // What is too much without anybody else is told beside what was typed.
      const isDecided = isLate(problem) && (await decidedOf(id)).status !== this.#view.page.dataset.status;
      if (!isDecided) {
        refused = problem;
        return undefined;
      }
      dialog.close();
      return this.#refused(id, problem);
    });
    if (refused) throw refused;
  }

  async #decide(id, send, told, otherwise = (problem) => this.#refused(id, problem)) {
    await this.#once(async () => {
      performance.mark("decision");
      this.#begun([id]);
      const { body } = await send();
      this.#begun([]);
      const isPending = body.status === "pending_approval";
      this.#did(body.id, KINDS[body.status]);
      await this.#view.leave(id, say(isPending ? "pending" : told));
    }, otherwise);
  }

  /** Tell who was first where somebody else has decided, and go on; otherwise tell what is wrong, and stay. */
  async #refused(id, problem) {
    if (!isLate(problem)) return this.#failed(problem);
    const { status, notice } = await decidedOf(id);
    if (status === this.#view.page.dataset.status) {
      if (problem.status !== 412) return this.#failed(problem, "gone");
      await this.#view.refresh(id);
      return announce(say("changed"), { isAlert: true });
    }
    const said = say("second_was_later");
    this.#outcome(said, ...notice);
    return this.#view.leave(id, document.getElementById("outcome").textContent);
  }

  #failed(problem, text = "failed") {
    const told = say(text, { why: problem.message });
    this.#outcome(told);
    announce(told, { isAlert: true });
  }

  #outcome(...told) {
    const notice = document.createElement("div");
    notice.className = "notice";
    notice.append(told[0], " ", ...told.slice(1));
    document.getElementById("outcome").replaceChildren(notice);
  }

  /** Do one thing at a time: two decisions on their way would leave it open which is the last. */
  async #once(act, otherwise = (problem) => this.#failed(problem)) {
    if (this.#busy) {
      announce(say("busy"));
      return;
    }
    this.#busy = true;
    this.#view.begins();
    document.getElementById("outcome").replaceChildren();
    this.#view.page.setAttribute("aria-busy", "true");
    try {
      await act();
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      // What became of it may get no answer either.
      await Promise.resolve(otherwise(problem)).catch(() => this.#failed(problem));
    } finally {
      this.#begun([]);
      this.#busy = false;
      this.#view.page.removeAttribute("aria-busy");
      this.#view.ends();
    }
  }

  #made() {
    return JSON.parse(sessionStorage.getItem(`${this.#view.placeKey}-made`) ?? "[]");
  }

  #keep(made) {
    sessionStorage.setItem(`${this.#view.placeKey}-made`, JSON.stringify(made.slice(-UNDONE_MAX)));
  }

  /** Note in this window what is being decided. */
  #begun(ids) {
    const key = `${this.#view.placeKey}-begun`;
    if (ids.length) sessionStorage.setItem(key, JSON.stringify(ids));
    else sessionStorage.removeItem(key);
  }

  #did(id, kind) {
    this.#keep([...this.#made(), { id, kind }]);
  }

  /** Return what a match is about, as nodes: its line, or its item where it has none or several. */
  #subject() {
    const [lines, items] = [...this.#view.item.querySelectorAll(".side-column")].map((side) => side.querySelectorAll("[data-transaction]"));
    const [one] = lines.length === 1 || !items.length ? lines : items;
    return one ? this.#named(one.dataset.transaction) : [];
  }

  /** Return a line or an item as nodes: its day, whose it is, and its amount. What is no part of the match is a choice. */
  #named(id, choice) {
    const own = this.#view.item.querySelector(`[data-transaction="${CSS.escape(id)}"]`);
    const parts = own ? ["time", "h4 a", "h4 .amount"].map((name) => own.querySelector(name)) : ["[data-day]", ".choice-name", ".amount"].map((name) => choice?.querySelector(name));
    return parts.filter((part) => part?.textContent.trim()).flatMap((part, index) => {
      const copy = part.cloneNode(true);
      // The numbers of the evidence belong to the match, and mean nothing where its table is not.
      for (const mark of copy.querySelectorAll("mark > .visually-hidden, .mark-label")) mark.remove();
      for (const mark of copy.querySelectorAll("mark")) mark.replaceWith(...mark.childNodes);
      return [...(index ? [" · "] : []), ...copy.childNodes];
    });
  }

  /** Ask for a reason; null where the user has thought better of it. */
  #reason({ title, what, go, isRequired = false }) {
    if (this.#busy) {
      announce(say("busy"));
      return Promise.resolve(null);
    }
    const dialog = document.getElementById("reason-dialog");
    const input = dialog.querySelector("[name=reason]");
    document.getElementById("reason-title").replaceChildren(...title);
    document.getElementById("reason-what").replaceChildren(...what);
    document.getElementById("reason-go").textContent = go;
    Object.assign(input, { value: "", required: isRequired });
    dialog.returnValue = "";
    return new Promise((resolve) => {
      const closed = () => {
        // That of the time before may be told when it is open again.
        if (dialog.open) return;
        dialog.removeEventListener("close", closed);
        resolve(dialog.returnValue === "go" ? input.value.trim() : null);
      };
      dialog.addEventListener("close", closed);
      dialog.showModal();
    });
  }
}
