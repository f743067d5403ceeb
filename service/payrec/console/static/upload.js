// Sends a file with its options and tells how much of it is sent, which fetch does not; else as rest.js.
import { Problem, proofs, rest } from "./rest.js";

/** How long a server may take for a file after it has all of it; a request that takes longer is given up. */
const ANSWER_MS = 10 * 60_000;

/**
 * POST a form with a file. `progress(share)` is told how much is sent, from 0 to 1. Returns {status, body}.
 * Nothing is repeated by itself: a file is large, so who sends it decides; the key makes that safe.
 */
export async function send(path, form, { idempotencyKey, signal, progress }) {
  for (;;) {
    const answer = await once(path, form, { idempotencyKey, signal, progress });
    if (answer.status !== 401) return answer;
    // Whatever is asked for comes back with the session: by itself, or when somebody has signed in again.
    await rest("GET", "/imports?limit=1");
  }
}

function once(path, form, { idempotencyKey, signal, progress }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/console/${document.body.dataset.environment}/rest${path}`);
    for (const [name, value] of Object.entries(proofs())) request.setRequestHeader(name, value);
    if (idempotencyKey) request.setRequestHeader("Idempotency-Key", idempotencyKey);
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.upload.onload = () => {
      progress(1);
      waits = setTimeout(() => request.abort(), ANSWER_MS);
    };
    let waits = 0;
    const stop = () => request.abort();
    signal.addEventListener("abort", stop, { once: true });
    request.onloadend = () => {
      clearTimeout(waits);
      signal.removeEventListener("abort", stop);
    };
    request.onerror = () => reject(new Problem({ status: 0, code: "network" }));
    request.onabort = () => reject(new Problem({ status: 0, code: signal.aborted ? "stopped" : "network" }));
    request.onload = () => {
      const body = parsed(request.responseText);
      if (request.status < 300 || request.status === 401) resolve({ status: request.status, body });
      else reject(new Problem({ code: "unknown", title: request.statusText, ...body, status: request.status }));
    };
    request.send(form);
  });
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
