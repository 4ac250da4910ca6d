// One word to whoever looks at the console: what was just done. It stays over a change of page.
export interface Announcement {
  title: string;
  text: string;
}

let said: Announcement | undefined;
const listeners = new Set<() => void>();

export function announce(next: Announcement | undefined): void {
  said = next;
  for (const heard of listeners) heard();
}

export function announced(): Announcement | undefined {
  return said;
}

export function listen(heard: () => void): () => void {
  listeners.add(heard);
  return () => {
    listeners.delete(heard);
  };
}
