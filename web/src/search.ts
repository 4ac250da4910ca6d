import { type Phase, phases, type Sort, sorts, type TaskFilter } from "./api/queries";

/** The part of a list's filter that is in the address. */
export type Search = Pick<TaskFilter, "phase" | "search" | "sort">;

export function isPhase(word: unknown): word is Phase {
  return phases.some((p) => p === word);
}

/** The router reads ?search=42 as a number, ?x=true as a boolean: what was written is text. */
function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : "";
}

/** Words of an address: one, several with commas, or a list of them. */
function wordsOf(value: unknown): string[] {
  const list = Array.isArray(value) ? value : [value];
  return list.flatMap((one) => textOf(one).split(",")).map((word) => word.trim().toLowerCase());
}

/**
 * What an address may say; anything else in it is passed over. Every key is set, also to nothing: what the
 * router read from the address stays in force for a key that is not.
 */
export function readSearch(raw: Record<string, unknown>): Search {
  const asked = wordsOf(raw.phase);
  const phase = phases.filter((p) => asked.includes(p.toLowerCase()));
  const search = textOf(raw.search).slice(0, 128);
  const order = textOf(raw.sort).toLowerCase();
  return {
    phase: phase.length > 0 ? phase : undefined,
    search: search !== "" ? search : undefined,
    sort: sorts.find((s): s is Sort => s.toLowerCase() === order),
  };
}

/** What a new task is made from: a checkpoint of a task (both or none), or a task that is to run again. */
export interface Origin {
  from?: string;
  step?: number;
  again?: string;
}

export function readOrigin({ from, step, again }: Record<string, unknown>): Origin {
  const task = textOf(from).slice(0, 128);
  const at = Number(textOf(step));
  const known = task !== "" && textOf(step) !== "" && Number.isSafeInteger(at) && at > 0;
  const other = textOf(again).slice(0, 128);
  return {
    from: known ? task : undefined,
    step: known ? at : undefined,
    again: !known && other !== "" ? other : undefined,
  };
}
