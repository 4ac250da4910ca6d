// Who we are to the server. Everything that knows about tokens is in this file, so that a cookie
// can take the token's place without any page noticing.

const place = "fermi.token";
let token = sessionStorage.getItem(place) ?? "";
const listeners = new Set<() => void>();

export function signedIn(): boolean {
  return token !== "";
}

/** What a request must carry. */
export function credentials(): Record<string, string> {
  return token === "" ? {} : { Authorization: `Bearer ${token}` };
}

/** Keeps the token for this tab; it was checked before. */
export function keep(next: string): void {
  token = next;
  sessionStorage.setItem(place, next);
  tell();
}

/** Forgets who we are; the pages go back to sign-in. */
export function forget(): void {
  token = "";
  sessionStorage.removeItem(place);
  tell();
}

export function onSession(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(): void {
  for (const listener of listeners) listener();
}
