// What failures cost a task, as numbers for the page that shows it.
import type { TFunction } from "i18next";
import type { Schemas, Task } from "./api/client";

export const phases = ["detect", "attribute", "place", "start", "restore", "catchUp"] as const;
export type Phase = (typeof phases)[number];

/** The platform's goal for the mean of recoveries, in ms. */
export const recoveryGoal = 5 * 60_000;

const units: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, µs: 0.001, us: 0.001, ns: 0.000_001 };

/** A duration as the server writes it, such as 1m2.5s, in ms; NaN for anything else. */
export function spanOf(text: string | undefined): number {
  if (!text || !/^(\d+(\.\d+)?(h|ms|m|s|µs|us|ns))+$/.test(text)) return Number.NaN;
  let sum = 0;
  for (const [, n, unit] of text.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|s|µs|us|ns)/g))
    sum += Number(n) * (units[unit ?? ""] ?? 0);
  return sum;
}

/** A row of the plot: a recovery, or the mean of all. */
export interface Bar {
  key: string;
  cause: string;
  rank?: number;
  node?: string;
  failedAt?: string;
  /** Where the state came from, and of which step it was; absent until all ranks run. */
  source?: Schemas["Recovery"]["source"];
  step?: number;
  open: boolean;
  swapped?: boolean;
  lostSteps?: number;
  parts: { phase: Phase; ms: number }[];
  whole: number;
}

/** How long each phase of a recovery took, as far as it got; what is under way lasts until now. */
export function barOf(r: Schemas["Recovery"], now: number): Bar {
  const times = [r.seenAt, r.attributedAt, r.openedAt, r.runningAt, r.steppedAt, r.endedAt];
  let last = Date.parse(r.failedAt);
  const parts: Bar["parts"] = [];
  for (const [i, phase] of phases.entries()) {
    const text = times[i];
    if (!text && r.endedAt) break;
    const at = text ? Date.parse(text) : now;
    // How long it took to be found is not known where only the finding is.
    if (i > 0 || !r.found) parts.push({ phase, ms: Math.max(at - last, 0) });
    last = Math.max(at, last);
    if (!text) break;
  }
  const { rank, node, failedAt, source, restore: step, lostSteps } = r;
  return {
    key: r.seenAt,
    cause: r.cause ?? "",
    rank,
    node,
    failedAt,
    source,
    step,
    lostSteps,
    swapped: r.action === "swap",
    open: !r.endedAt,
    parts,
    whole: total(parts),
  };
}

function total(parts: Bar["parts"]): number {
  return parts.reduce((n, p) => n + p.ms, 0);
}

/** The mean of all recoveries; undefined before the first. */
export function meanOf(i: Schemas["Interruptions"] | undefined): Bar | undefined {
  if (!i?.recovered) return undefined;
  const parts = phases.flatMap((phase) => {
    const ms = spanOf(i.phases?.[phase]) / (i.recovered ?? 1);
    return Number.isFinite(ms) ? [{ phase, ms }] : [];
  });
  return { key: "mean", cause: "", open: false, parts, whole: total(parts) };
}

/** The share of a task's time, less what it was stopped for, in which it made new steps; NaN where that is not known: it told no steps. */
export function effective(task: Task, now: number): number {
  const { time, finishedAt } = task.status ?? {};
  if (!time?.step) return Number.NaN;
  const until = finishedAt ? Date.parse(finishedAt) : now;
  const spent: Record<string, number> = {};
  for (const [kind, d] of Object.entries(time.spent ?? {})) spent[kind] = spanOf(d) || 0;
  // What comes after the newest step is known with the next.
  if (time.doing !== "effective")
    spent[time.doing] = (spent[time.doing] ?? 0) + Math.max(until - Date.parse(time.at), 0);
  const whole = Object.values(spent).reduce((n, d) => n + d, 0) - (spent.stopped ?? 0);
  return whole > 0 ? (spent.effective ?? 0) / whole : Number.NaN;
}

/** Steps that had to be made again, as far as that is known; undefined: not at all. */
export function lostSteps(i: Schemas["Interruptions"]): { steps: number; untold: number } | undefined {
  const newest = i.last?.[i.last.length - 1];
  // After the newest failure nobody may have made a step yet, or ever.
  const counted = !newest || newest.lostSteps !== undefined || (newest.runningAt && newest.endedAt && !newest.step);
  const untold = Math.min((i.untold ?? 0) + (counted ? 0 : 1), i.count);
  if (untold && untold === i.count && !i.lostSteps) return undefined;
  return { steps: i.lostSteps ?? 0, untold };
}

/** A share of time; three digits where one would round it up to all. */
export function percent(part: number): string {
  return `${(100 * part).toFixed(part > 0.999 && part < 1 ? 3 : 1)} %`;
}

/** Seconds with two digits below a minute, where recoveries should be. */
export function short(ms: number, t: TFunction): string {
  if (ms < 60_000) return `${(ms / 1000).toFixed(2)} ${t("unit.second")}`;
  const s = Math.round(ms / 1000);
  return `${Math.floor(s / 60)} ${t("unit.minute")} ${s % 60} ${t("unit.second")}`;
}
