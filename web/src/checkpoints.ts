import type { Schemas, Task, Text } from "./api/client";

export type Checkpoint = Schemas["Checkpoint"];
export const tiers = ["local", "shared"] as const;
export type Tier = (typeof tiers)[number];

/** A checkpoint in one tier, where it stands on the scale of steps. */
export interface Mark {
  key: string;
  step: number;
  at: number; // percent
  pinned: boolean;
  abandoned: boolean;
}

/** Whether a checkpoint is of the future that a restore gave up. Names sort by generation, then by step. */
export function abandoned(c: Checkpoint, task: Task): boolean {
  const r = task.spec.restore;
  return r !== undefined && c.name > r.name && c.generation <= r.generation;
}

export function pinned(c: Checkpoint): boolean {
  return (c.tiers ?? []).some((t) => t.pinned);
}

/** Its copy in the shared store, which any task can read. */
export function shared(c: Checkpoint): Schemas["CheckpointCopy"] | undefined {
  return (c.tiers ?? []).find((t) => t.tier === "shared");
}

/** The marks of each tier that has any, all on one scale. */
export function marksOf(list: readonly Checkpoint[], task: Task): { tier: Tier; marks: Mark[] }[] {
  const steps = list.map((c) => c.step);
  const low = Math.min(...steps);
  const span = Math.max(...steps) - low;
  const place = (step: number) => (span === 0 ? 50 : (100 * (step - low)) / span);
  return tiers
    .map((tier) => ({
      tier,
      marks: list.flatMap((c) =>
        (c.tiers ?? [])
          .filter((t) => t.tier === tier)
          .map((t) => ({
            key: c.name,
            step: c.step,
            at: place(c.step),
            pinned: t.pinned ?? false,
            abandoned: abandoned(c, task),
          })),
      ),
    }))
    .filter((row) => row.marks.length > 0);
}

/** When it became a checkpoint first, in any tier. */
export function committed(c: Checkpoint): string {
  return (c.tiers ?? []).map((t) => t.committedAt).sort()[0] ?? "";
}

/** What is known of its bytes since they were written: the first damage of any tier, else when they were last read back. */
export function verdict(c: Checkpoint): { damage?: Text; verifying: boolean; at: string } {
  const tiers = c.tiers ?? [];
  return {
    damage: tiers.find((t) => t.damage)?.damage?.message,
    verifying: tiers.some((t) => t.verifying),
    at:
      tiers
        .map((t) => t.verifiedAt ?? "")
        .sort()
        .at(-1) ?? "",
  };
}

/** Its metrics by name, as many as there is room for. */
export function metricsOf(c: Checkpoint, most = 4): string {
  const names = Object.keys(c.metrics ?? {}).sort();
  const shown = names.slice(0, most).map((n) => `${n}=${Number((c.metrics?.[n] ?? 0).toPrecision(5))}`);
  return [...shown, ...(names.length > most ? ["…"] : [])].join(" ");
}
