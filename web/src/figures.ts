// How well all tasks of a project or the cluster do, as bars with the goals marked on them.
import type { TFunction } from "i18next";
import type { Schemas } from "./api/client";
import { lostSteps, meanOf, percent, short } from "./recovery";

export type Figures = Schemas["FiguresView"];

export interface Gauge {
  name: string;
  word: string;
  value: string;
  note: string;
  fill?: number; // percent of the bar; absent: not measured
  goal?: number; // where the goal is on it, likewise
  bad: boolean;
}

/** The four that there are goals for or that say most, also those not measured. */
export function gaugesOf(view: Figures, t: TFunction): Gauge[] {
  const { figures, goals } = view;
  const share = (name: string, word: string): Gauge => {
    const [v, goal] = [figures[name], goals[name]];
    return {
      name,
      word,
      value: v === undefined ? t("figures.none") : percent(v),
      note: goal === undefined ? "" : t("figures.above", { n: `${Math.round(100 * goal)} %` }),
      fill: v === undefined ? undefined : 100 * clamp(v),
      goal: goal === undefined ? undefined : 100 * clamp(goal),
      bad: v !== undefined && goal !== undefined && v <= goal,
    };
  };
  return [
    share("device_use", t("figures.deviceUse")),
    share("mfu", "MFU"),
    recovery(figures.recovery_seconds, goals.recovery_seconds ?? 0, t),
    share("effective_time", t("recovery.effective")),
  ];
}

/** Shorter is better: the goal stands in the middle, unless it was missed by more than double. */
function recovery(v: number | undefined, goal: number, t: TFunction): Gauge {
  const whole = Math.max(2 * goal, v ?? 0) || 1;
  return {
    name: "recovery_seconds",
    word: t("recovery.mean"),
    value: v === undefined ? t("figures.none") : short(1000 * v, t),
    note: t("figures.below", { n: goal / 60 }),
    fill: v === undefined ? undefined : (100 * v) / whole,
    goal: (100 * goal) / whole,
    bad: v !== undefined && v >= goal,
  };
}

function clamp(part: number): number {
  return Math.min(Math.max(part, 0), 1);
}

/** What failures cost, and the rates, in words; empty where there is nothing to tell. */
export function remarksOf({ figures, interruptions: costs }: Figures, t: TFunction): string[] {
  const out: string[] = [];
  for (const [key, word] of [
    ["samples_per_second", "use.samples"],
    ["tokens_per_second", "use.tokens"],
  ] as const) {
    const v = figures[key];
    if (v) out.push(`${t(word)} ${v >= 100 ? Math.round(v).toLocaleString("en") : v.toPrecision(3)}`);
  }
  if (costs.count === 0) return out;
  const causes = Object.entries(costs.causes ?? {})
    .sort(([a, n], [b, m]) => m - n || a.localeCompare(b))
    .map(([cause, n]) => `${cause} × ${n}`);
  out.push(
    [t("recovery.failures"), costs.count, causes.length > 0 && `(${causes.join(", ")})`].filter(Boolean).join(" "),
  );
  const lost = lostSteps(costs);
  const untold = lost?.untold ? ` (${t("recovery.untold", { n: lost.untold })})` : "";
  out.push(`${t("recovery.lostSteps")} ${lost ? lost.steps : t("recovery.unknown")}${untold}`);
  const parts = meanOf(costs)?.parts ?? [];
  if (parts.length > 0) {
    const words = parts.map((p) => `${t(`recovery.${p.phase}`)} ${short(p.ms, t)}`);
    out.push(`${t("figures.phases")}: ${words.join(", ")}`);
  }
  return out;
}
