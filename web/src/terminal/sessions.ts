// Which shells this tab has open in a replica: a page that is loaded again finds them.

export interface Session {
  id: string;
  /** Its number among those of this page. */
  n: number;
}

const place = (where: string) => `fermi.shells.${where}`;
/** More would make the oldest of a replica go. */
export const maxSessions = 8;

/** Those of a replica; where is its terminal's address. */
export function sessionsOf(where: string): Session[] {
  try {
    const list: unknown = JSON.parse(sessionStorage.getItem(place(where)) ?? "[]");
    if (!Array.isArray(list)) return [];
    return list
      .filter((s): s is Session => typeof s?.id === "string" && Number.isSafeInteger(s?.n))
      .slice(0, maxSessions);
  } catch {
    return [];
  }
}

export function keepSessions(where: string, list: readonly Session[]): void {
  if (list.length === 0) sessionStorage.removeItem(place(where));
  else sessionStorage.setItem(place(where), JSON.stringify(list));
}

/** One more; its name is a secret to others. */
export function oneMore(list: readonly Session[]): Session {
  const bytes = crypto.getRandomValues(new Uint8Array(15));
  const id = btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_");
  return { id, n: list.reduce((n, s) => Math.max(n, s.n), 0) + 1 };
}
