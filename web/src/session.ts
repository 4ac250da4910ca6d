// Who we are to the server. Everything that knows about tokens and cookies is in this file: a cookie
// from a one-time code (/#code=…) or a password, or a token that was pasted and is kept for this tab.

const place = "fermi.token";
const mark = "fermi.session"; // a cookie was set; the cookie itself is out of our reach
let token = sessionStorage.getItem(place) ?? "";
let cookie = localStorage.getItem(mark) !== null;
let parting: Parting | undefined;
const listeners = new Set<() => void>();

/** Why one is at the sign-in page again, where that was one's own doing. */
export type Parting = "passwordChanged" | "everywhere";

export function partedBy(): Parting | undefined {
  return parting;
}

/** Whether the browser's cookie speaks for us; a token speaks first. */
export function byCookie(): boolean {
  return token === "" && cookie;
}

export function signedIn(): boolean {
  return token !== "" || cookie;
}

/** What a request must carry; the browser adds the cookie by itself. */
export function credentials(): Record<string, string> {
  return token === "" ? {} : { Authorization: `Bearer ${token}` };
}

/**
 * What a WebSocket must offer as its protocols: it carries no headers. The browser adds the cookie by itself.
 */
export function socketProtocols(): string[] {
  return token === "" ? [] : ["fermi.terminal", `fermi.bearer.${token}`];
}

/** Trades the code in the address for a cookie, and takes it out of the address at once. */
export async function redeem(): Promise<void> {
  const code = new URLSearchParams(window.location.hash.slice(1)).get("code");
  if (code === null) return;
  window.history.replaceState(null, "", window.location.pathname + window.location.search);
  const response = await fetch("/api/v1/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
  }).catch(() => undefined);
  if (!response?.ok) return; // used, or too old: the sign-in page asks
  entered();
}

/** The server has set a cookie. */
export function entered(): void {
  token = "";
  sessionStorage.removeItem(place);
  cookie = true;
  localStorage.setItem(mark, "1");
  parting = undefined;
  tell();
}

/** Keeps the token for this tab; it was checked before. */
export function keep(next: string): void {
  token = next;
  sessionStorage.setItem(place, next);
  parting = undefined;
  tell();
}

/** Ends a session by cookie on the server, and forgets who we are. */
export async function leave(): Promise<void> {
  if (byCookie()) await fetch("/api/v1/session", { method: "DELETE" }).catch(() => undefined);
  forget();
}

/** Forgets who we are; the pages go back to sign-in. */
export function forget(why?: Parting): void {
  parting = why ?? parting;
  token = "";
  sessionStorage.removeItem(place);
  cookie = false;
  localStorage.removeItem(mark);
  tell();
}

export function onSession(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(): void {
  for (const listener of listeners) listener();
}
