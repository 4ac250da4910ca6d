import { type Phase, phases, type Sort, sorts, type TaskFilter } from "./api/queries";

/** The part of a list's filter that is in the address. */
export type Search = Pick<TaskFilter, "phase" | "search" | "sort">;

export function isPhase(word: unknown): word is Phase {
  return phases.some((p) => p === word);
}

/** What an address may say; anything else in it is passed over. */
export function readSearch(raw: Record<string, unknown>): Search {
  const out: Search = {};
  if (Array.isArray(raw.phase)) {
    const known = raw.phase.filter(isPhase);
    if (known.length > 0) out.phase = known;
  }
  if (typeof raw.search === "string" && raw.search !== "") out.search = raw.search.slice(0, 128);
  if (sorts.some((s) => s === raw.sort)) out.sort = raw.sort as Sort;
  return out;
}

/** The checkpoint that a new task is to begin from: both or none. */
export interface Origin {
  from?: string;
  step?: number;
}

export function readOrigin({ from, step }: Record<string, unknown>): Origin {
  const known = typeof from === "string" && from !== "" && Number.isSafeInteger(step) && Number(step) > 0;
  return known ? { from: from.slice(0, 128), step: Number(step) } : {};
}
