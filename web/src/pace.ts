// How fast a task trains, in words.
import type { TFunction } from "i18next";
import type { Schemas } from "./api/client";
import { spanOf } from "./recovery";

/** The platform's goal for the share of what devices could do. */
export const mfuGoal = 0.55;

export function paceWords(p: Schemas["Pace"], t: TFunction): string {
  const percent = (part: number) => (100 * part).toFixed(1);
  const rate = (n: number) => (n >= 100 ? Math.round(n).toLocaleString("en") : n.toPrecision(3));
  const parts: string[] = [t("pace.step", { n: p.step, time: (spanOf(p.stepTime) / 1000).toFixed(3) })];
  if (p.samplesPerSecond) parts.push(t("pace.samples", { n: rate(p.samplesPerSecond) }));
  if (p.tokensPerSecond) parts.push(t("pace.tokens", { n: rate(p.tokensPerSecond) }));
  if (p.mfu) parts.push(t(p.mfu > mfuGoal ? "pace.mfuGood" : "pace.mfuLow", { n: percent(p.mfu) }));
  if (p.dataWait) parts.push(t("pace.wait", { n: percent(p.dataWait) }));
  if (p.lossScale) parts.push(t("pace.scale", { n: p.lossScale.toLocaleString("en"), count: p.skippedSteps ?? 0 }));
  return parts.join(" · ");
}
