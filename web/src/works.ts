// How environments and services stand, in words of the console.
import type { Environment, Service } from "./api/works";
import type { Key } from "./i18n/zh";

export interface Standing {
  word: Key;
  hue: string;
}

const phases: Record<string, Standing> = {
  Pending: { word: "env.state.Pending", hue: "yellow" },
  Initializing: { word: "env.state.Initializing", hue: "teal" },
  Running: { word: "env.state.Running", hue: "blue" },
  Recovering: { word: "env.state.Recovering", hue: "orange" },
  Completed: { word: "env.state.Completed", hue: "gray" },
  Failed: { word: "env.state.Failed", hue: "red" },
  Stopped: { word: "env.state.Stopped", hue: "gray" },
};
const pending: Standing = { word: "env.state.Pending", hue: "yellow" };

const ended = ["Completed", "Failed", "Stopped"];

/** Whether an environment has ended, and nobody asked for another start. */
export function isOff(e: Environment): boolean {
  return ended.includes(e.status?.phase ?? "") && !isDue(e);
}

/** Whether somebody asked for a start after it had ended. */
function isDue(e: Environment): boolean {
  const over = ended.includes(e.status?.phase ?? "");
  return over && !e.spec.stop && !e.metadata.deletedAt && (e.spec.starts ?? 0) > (e.status?.starts ?? 0);
}

/** Whether a snapshot of its home is being made: nothing else of it runs. */
export const isSaving = (e: Environment) => e.status?.snapshot?.running === true;

/** Whether its home is on its way to another place. */
export function isMoving(e: Environment): boolean {
  const asked = (e.spec.move?.count ?? 0) > (e.status?.moved?.count ?? 0);
  return asked || (e.status?.moved?.running === true && !ended.includes(e.status?.phase ?? ""));
}

export function environmentStanding(e: Environment): Standing {
  if (e.metadata.deletedAt) return { word: "work.deleting", hue: "gray" };
  if (isMoving(e)) return { word: "env.state.Moving", hue: "teal" };
  if (isSaving(e)) return { word: "env.state.Saving", hue: "teal" };
  if (isDue(e)) return pending;
  if (e.spec.stop && !ended.includes(e.status?.phase ?? "")) return { word: "work.stopping", hue: "gray" };
  return phases[e.status?.phase ?? "Pending"] ?? pending;
}

export function serviceStanding(s: Service): Standing {
  if (s.metadata.deletedAt) return { word: "work.deleting", hue: "gray" };
  const phase = s.status?.phase ?? "Deploying";
  if (s.spec.stop && phase !== "Stopped") return { word: "work.stopping", hue: "gray" };
  if (phase === "Running")
    return s.status?.health === "degraded"
      ? { word: "svc.state.Degraded", hue: "orange" }
      : { word: "svc.state.Running", hue: "blue" };
  if (phase === "Failed") return { word: "svc.state.Failed", hue: "red" };
  if (phase === "Stopped") return { word: "svc.state.Stopped", hue: "gray" };
  return { word: "svc.state.Deploying", hue: "teal" };
}

/** Whether replicas of an older revision still answer, or those of the newest don't all. */
export function isUpdating(s: Service): boolean {
  const { wanted = 0, updated = 0, total = 0 } = s.status?.replicas ?? {};
  return s.status?.phase === "Running" && (s.status.revision ?? 1) > 1 && (updated < wanted || total > wanted);
}

/** Money as it is written: two digits, more where it is less than a cent. */
export function money(amount: number, currency: string): string {
  const sign = currency === "CNY" ? "¥" : `${currency} `;
  if (amount === 0) return `${sign}0`;
  return `${sign}${amount.toFixed(amount < 0.01 ? 4 : 2)}`;
}

/** How many of a list stand where. */
export function countBy<T>(items: readonly T[], standing: (item: T) => Standing): [Standing, number][] {
  const counts = new Map<Key, [Standing, number]>();
  for (const item of items) {
    const s = standing(item);
    const old = counts.get(s.word);
    if (old) old[1]++;
    else counts.set(s.word, [s, 1]);
  }
  return [...counts.values()];
}
