// Lists that go on: more rows come when their end is near, and are put there a few in a frame.
import { announce, text } from "./console.js";
import { fragment, place } from "./rest.js";

/** Return the rows of a list. */
export function rowsOf(list) {
  return list ? [...list.querySelectorAll(".lines > .line")] : [];
}

/** Return what loads the rows that a link leads to; `ready` is told of each, `focusRow` of the first if the link had the focus. */
export function moreRows(page, { ready, focusRow }) {
  async function more(link) {
    const side = link.dataset.more;
    if (link.getAttribute("aria-disabled") === "true") return;
    const hadFocus = link === document.activeElement;
    link.setAttribute("aria-disabled", "true");
    link.textContent = text("loading", page);
    try {
      const holder = document.createElement("div");
      place(holder, await fragment(link.pathname + link.search));
      const list = holder.querySelector(`[data-list="${side}"]`);
      const next = holder.querySelector(`[data-more="${side}"]`);
      const rows = rowsOf(list);
      for (const row of rows) ready(row);
      await append(page.querySelector(`[data-list="${side}"]`), list.children);
      if (hadFocus) focusRow(rows[0]);
      if (next) link.parentElement.replaceChildren(next);
      else link.parentElement.remove();
      watch(next);
    } catch (problem) {
      link.textContent = text("again", page);
      link.removeAttribute("aria-disabled");
      announce(problem.detail || problem.title || text("failed", page), { isAlert: true });
    }
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) more(entry.target);
  }, { rootMargin: "9999999px 0px 400px" });

  /**
   * Load more when the end of a list comes near, but not before somebody has scrolled at all. The end of the shorter
   * list may be above all that is in sight.
   */
  function watch(link) {
    if (link && page.dataset.scrolled) seen.observe(link);
  }

  window.addEventListener("scroll", () => {
    page.dataset.scrolled = "1";
    for (const link of page.querySelectorAll("[data-more]")) watch(link);
  }, { once: true, passive: true });

  return more;
}

let appended = Promise.resolve();

/**
 * Append pages of rows to a list, five rows in a frame and after what is under way on the other side: to lay out two
 * pages at once, where they are in sight, would hold everything up.
 */
function append(list, pages) {
  appended = appended.then(async () => {
    for (const rows of [...pages]) {
      const lists = [...rows.children];
      rows.replaceChildren();
      for (const few of lists) {
        await new Promise(requestAnimationFrame);
        rows.append(few);
        if (!rows.isConnected) list.append(rows);
      }
    }
  });
  return appended;
}
