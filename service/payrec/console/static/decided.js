// What somebody else has decided meanwhile: of two people, the second is told who was first.
import { fragment, parsedPage, rest } from "./rest.js";

/** Tell whether a problem may be that somebody else was first. */
export function isLate({ status, code }) {
  return status === 409 || status === 412 || code === "amount_exceeds_open";
}

/** Return what became of a match: its status, and as nodes who has decided that, and when; and who, as a name. */
export async function decidedOf(id) {
  const page = parsedPage(await fragment(`/console/${document.body.dataset.environment}/review/items/${id}`));
  const article = document.adoptNode(page.querySelector("article"));
  const notice = article.querySelector("[data-decided]");
  const who = notice?.querySelector("[data-who]")?.textContent ?? "";
  return { status: article.dataset.status, by: notice?.dataset.decided ?? "", who, notice: [...(notice?.childNodes ?? [])] };
}

/** Return whether a line is open, its version, and as nodes what became of it, when, and by whom. */
export async function becameOf(id) {
  const { body } = await rest("GET", `/incoming-transactions/${id}`);
  const page = parsedPage(await fragment(`/console/${document.body.dataset.environment}/incoming/${id}`));
  const last = page.querySelector(".history li > p");
  const parts = [page.querySelector(".detail-amount .badge"), last?.querySelector("time"), last?.querySelector(".soft")];
  const told = parts.filter(Boolean).flatMap((part) => [...document.adoptNode(part).childNodes, " "]);
  return { isOpen: ["pending", "unmatched", "partially_matched"].includes(body.status), version: String(body.version), told };
}

/** Return who has matched one of these lines or items, and when, as text; empty where nobody has. */
export async function whoMatched(rows) {
  for (const { side, id } of rows) {
    const { body } = await rest("GET", `/matches?${side}TransactionId=${id}&status=accepted&limit=1`);
    if (!body.data.length) continue;
    const { notice } = await decidedOf(body.data[0].id);
    return notice.map((node) => node.textContent).join("").trim();
  }
  return "";
}
