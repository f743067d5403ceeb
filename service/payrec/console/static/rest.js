// The way from a page to the REST interface: the session's cookie goes along, and the server makes a request of it that
// is like every other client's. One user action has one Idempotency-Key, so whatever is tried again is done once.
import { announce, keepPage, sessionIsBack, text } from "./console.js";

const ANSWER_MS = 30_000;
const ATTEMPTS_MAX = 6;
const WAIT_MS_MAX = 8_000;
const RENEWED_MS = 500;

/** What the server refused, or why there was no answer (status 0, code "network" or "timed_out"). */
export class Problem extends Error {
  constructor({ status, code, title, detail, ...more }) {
    super(detail || title || code);
    Object.assign(this, { status, code, title, detail, more });
  }
}

/** Return a key for one action of the user; give it along when the action is tried again by hand. */
export function newIdempotencyKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Ask the REST interface in the page's environment. `body` is sent as JSON unless it is a FormData or a Blob.
 * Returns {status, headers, body}; `body` is the parsed JSON, or text, or null.
 */
export async function rest(method, path, { body, headers = {}, idempotencyKey, signal, answerMs = ANSWER_MS, attempts = ATTEMPTS_MAX } = {}) {
  const isRaw = body instanceof FormData || body instanceof Blob;
  const sent = { ...headers };
  if (body !== undefined && !isRaw) {
    sent["Content-Type"] = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  }
  const changes = method !== "GET";
  if (changes && method !== "PUT" && method !== "DELETE") sent["Idempotency-Key"] = idempotencyKey || newIdempotencyKey();
  const response = await insistently(`/console/${document.body.dataset.environment}/rest${path}`, {
    method,
    headers: sent,
    body: body === undefined ? undefined : isRaw ? body : JSON.stringify(body),
  }, { signal, answerMs, attempts });
  return { status: response.status, headers: response.headers, body: await parsed(response) };
}

/**
 * Return the HTML text of a fragment that the console itself serves; `path` begins with /console/. What is asked for
 * `inBackground` asks nobody to sign in again: somebody may be typing.
 */
export async function fragment(path, { signal, answerMs = ANSWER_MS, attempts = ATTEMPTS_MAX, inBackground = false } = {}) {
  const options = { method: "GET", headers: {} };
  const response = await insistently(path, options, { signal, answerMs, attempts, inBackground });
  return response.text();
}

/** Put a fragment that the server has made where an element's content is; nothing in it runs. */
export function place(element, html) {
  element.replaceChildren(...document.adoptNode(parsedPage(html).body).childNodes);
}

// The policy of our pages lets a text become elements by this alone, and so only what the console has answered does.
const ofOurs = globalThis.trustedTypes?.createPolicy("payrec-fragments", { createHTML: (html) => html });

/** Return the document of a fragment that the server has made, apart from the page. */
export function parsedPage(html) {
  return new DOMParser().parseFromString(ofOurs ? ofOurs.createHTML(html) : html, "text/html");
}

const unanswered = new Map();

/**
 * POST a change; `version` is what was looked at. What got no answer is sent again with the same key, however often
 * the user tries, so it is done once.
 */
export async function change(path, body, { version } = {}) {
  const action = JSON.stringify([path, body, version]);
  const idempotencyKey = unanswered.get(action) ?? newIdempotencyKey();
  unanswered.set(action, idempotencyKey);
  const headers = version ? { "If-Match": `"${version}"` } : {};
  const letGo = keepPage();
  try {
    const answer = await rest("POST", path, { body, idempotencyKey, headers });
    unanswered.delete(action);
    return answer;
  } catch (problem) {
    if (isRefusal(problem)) unanswered.delete(action);
    throw problem;
  } finally {
    letGo();
  }
}

/**
 * POST changes, {path, body, version}, one after the other: of those that compete, the first has it, whoever looks on.
 * Return what became of each, {answer} or {problem}; where one gets no answer, those after it are not tried, and have
 * neither. Sending the same ones again is safe. `told` hears how many are done.
 */
export async function changeEach(actions, told = () => {}) {
  const found = actions.map(() => ({}));
  for (const [index, { path, body, version }] of actions.entries()) {
    told(index);
    try {
      found[index] = { answer: await change(path, body, { version }) };
    } catch (problem) {
      found[index] = { problem };
      if (!isRefusal(problem)) break;
    }
  }
  return found;
}

/** Tell whether a problem is the last word: after any other one, what was asked for may have been done all the same. */
export function isRefusal({ status, code }) {
  return status >= 400 && status < 500 && ![401, 429].includes(status) && code !== "idempotency_in_progress";
}

/** Return the headers that say that a page of ours asks, and whose: somebody else may have signed in since it was made. */
export function proofs() {
  return { "X-Payrec-Console": "1", "X-Payrec-User": document.body.dataset.user };
}

async function insistently(url, options, { signal, answerMs, attempts, inBackground = false }) {
  let wasLost = false;
  let wasOver = false;
  for (let attempt = 1; ; attempt += 1) {
    let response = null;
    let cause = "network";
    try {
      const limit = AbortSignal.timeout(answerMs);
      response = await fetch(url, {
        ...options,
        headers: { ...options.headers, ...proofs() },
        credentials: "same-origin",
        redirect: "error",
        cache: "no-store",
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      cause = error.name === "TimeoutError" ? "timed_out" : "network";
    }
    if (response !== null) {
      if (wasLost) announce(text("networkBack"));
      wasLost = false;
      if (response.ok) return response;
      const problem = await problemOf(response);
      if (response.status === 401 && !wasOver) {
        // Another process may have prolonged the session meanwhile, by a token that serves once: its answer to another
        // request then has the next one.
        wasOver = true;
        await pause(RENEWED_MS, signal);
        continue;
      }
      if (response.status === 401 && !inBackground) {
        await sessionIsBack();
        continue;
      }
      const isBusy = [429, 502, 503, 504].includes(response.status) || problem.code === "idempotency_in_progress";
      if (!isBusy || attempt >= attempts) throw problem;
      await pause(secondsOf(response.headers.get("Retry-After")) * 1000 || backOff(attempt), signal);
      continue;
    }
    if (attempt >= attempts) {
      throw new Problem({ status: 0, code: cause, title: text(cause === "network" ? "networkFailed" : "timedOut") });
    }
    if (!wasLost) announce(text("networkLost"), { isAlert: true });
    wasLost = true;
    await untilOnline(backOff(attempt), signal);
  }
}

function backOff(attempt) {
  return Math.min(WAIT_MS_MAX, 500 * 2 ** (attempt - 1));
}

function secondsOf(header) {
  const seconds = Number(header);
  return Number.isFinite(seconds) ? Math.min(seconds, WAIT_MS_MAX / 1000) : 0;
}

/** Wait; a signal ends that with its reason. */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
  });
}

async function untilOnline(ms, signal) {
  await Promise.race([
    pause(ms, signal),
    new Promise((resolve) => window.addEventListener("online", resolve, { once: true })),
  ]);
}

async function parsed(response) {
  if (response.status === 204) return null;
  const kind = response.headers.get("Content-Type") || "";
  return kind.includes("json") ? response.json() : response.text();
}

async function problemOf(response) {
  try {
    return new Problem({ status: response.status, ...(await response.json()) });
  } catch {
    return new Problem({ status: response.status, code: "unknown", title: response.statusText });
  }
}
