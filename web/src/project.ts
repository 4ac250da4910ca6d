// Which project new work goes to where nobody says.
const place = "fermi.project";

export function keepProject(name: string): void {
  if (name !== "") localStorage.setItem(place, name);
}

/** Of those one may use: the one last used here, else the default one, else the first; "" where there is none. */
export function usualProject(names: readonly string[]): string {
  const last = localStorage.getItem(place);
  if (last !== null && names.includes(last)) return last;
  return names.includes("default") ? "default" : (names[0] ?? "");
}

interface QueueLike {
  metadata: { name?: string };
  spec?: { projects?: readonly string[] | null };
}

/** Whether a project may use a queue: its own, and those that name it or everybody. */
export function mayUse(queue: QueueLike, project: string, home: string): boolean {
  const named = queue.spec?.projects ?? [];
  return queue.metadata.name === home || named.includes(project) || named.includes("*");
}

/** What the names of priorities mean, the highest first. */
export const priorities = { inference: 1000, training: 500, environment: 400, preemptible: 100 } as const;
export type PriorityClass = keyof typeof priorities;

/** The classes that a project may use: what training has by default, and up to what it was granted. */
export function classesOf(highest: number | undefined): PriorityClass[] {
  const most = Math.max(highest ?? 0, priorities.training);
  return (Object.keys(priorities) as PriorityClass[]).filter((c) => priorities[c] <= most);
}
