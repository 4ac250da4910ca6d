// How far zones are from each other, in words: what was measured stands beside what is declared.
import type { TFunction } from "i18next";
import type { Schemas } from "./api/client";
import { moment } from "./format";
import type { Language } from "./i18n/setup";

export type Distance = Schemas["ZoneDistance"];
export type Crossing = Schemas["Crossing"];

/** Milliseconds, no finer than a hundredth. */
export const millis = (ms: number) => `${Number(ms.toFixed(2))}`;

/** The pair of two zones, whichever comes first. */
export function between(items: readonly Distance[], a: string, b: string): Distance | undefined {
  return items.find((d) => (d.from === a && d.to === b) || (d.from === b && d.to === a));
}

/** When and between whom it was measured, or why it was not; and that the way is encrypted. */
export function note(d: Distance, t: TFunction, lang: Language): string {
  const text = measuredWhen(d, t, lang);
  return d.encrypted ? `${text}${t("zones.encrypted")}` : text;
}

function measuredWhen(d: Distance, t: TFunction, lang: Language): string {
  const m = d.measured;
  if (!m) return t(d.oneMachine ? "zones.oneMachine" : "zones.notMeasured");
  const when = moment(m.at, lang);
  const ms = millis(m.p50Ms);
  const who = m.fromNode
    ? t("zones.measuredBetween", { ms, from: m.fromNode, to: m.toNode ?? "", when })
    : t("zones.reported", { ms, when });
  return m.stale && d.declaredMs !== undefined ? `${who}${t("zones.stale")}` : who;
}

/** What it costs a task to run in two zones. */
export function crossingWords(c: Crossing, known: Distance | undefined, t: TFunction): string {
  const words: string[] = [
    c.oneMachine
      ? t("zones.oneMachine")
      : c.pairs
        ? t("task.crossed", { ms: millis(c.latencyMs ?? 0), from: c.fromNode ?? "", to: c.toNode ?? "" })
        : t("zones.notMeasured"),
  ];
  if (known?.declaredMs !== undefined) words.push(t("zones.declaredAs", { ms: millis(known.declaredMs) }));
  if (known) words.push(t("zones.efficiency", { percent: Math.round(known.efficiency) }));
  return `${c.from} – ${c.to}: ${words.join(" · ")}`;
}
