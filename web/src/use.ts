// What a task uses and how well, as figures beside the platform's goals.
import type { TFunction } from "i18next";
import type { Task } from "./api/client";
import { bytes, quantity } from "./format";
import { mfuGoal } from "./pace";
import { meanOf, recoveryGoal } from "./recovery";

/** The platform's goal for the share of time in which devices work. */
export const deviceUseGoal = 0.85;

export interface Figure {
  word: string;
  value: string;
  note?: string;
  bad?: boolean;
}

const percent = (part: number) => `${(100 * part).toFixed(1)} %`;
const rate = (n: number) => (n >= 100 ? Math.round(n).toLocaleString("en") : n.toPrecision(3));

/** Those that are known of the task; none while nothing was measured. */
export function figuresOf(task: Task, t: TFunction): Figure[] {
  const { use, pace, interruptions } = task.status ?? {};
  const out: Figure[] = [];
  if (pace?.samplesPerSecond) out.push({ word: t("use.samples"), value: rate(pace.samplesPerSecond) });
  if (pace?.tokensPerSecond) out.push({ word: t("use.tokens"), value: rate(pace.tokensPerSecond) });
  if (pace?.mfu) {
    out.push({ word: "MFU", value: percent(pace.mfu), note: t("use.mfuGoal"), bad: pace.mfu <= mfuGoal });
  }
  if (pace?.lossScale) {
    const note = t("use.skipped", { count: pace.skippedSteps ?? 0 });
    out.push({ word: t("use.lossScale"), value: pace.lossScale.toLocaleString("en"), note });
  }
  if (use) {
    const { devices, deviceUse = 0, scaling, saves, wholeSaves = 0, cpuUse } = use;
    if (devices) {
      out.push({
        word: t("use.devices", { count: devices }),
        value: percent(deviceUse),
        note: t("use.deviceGoal"),
        bad: deviceUse <= deviceUseGoal,
      });
      out.push({
        word: t("use.deviceMemory"),
        value: bytes(quantity(use.deviceMemory)),
        note: t("use.of", { n: bytes(quantity(use.deviceTotal)) }),
      });
    }
    out.push({
      word: t("use.cores"),
      value: use.cores.toFixed(2),
      note: cpuUse ? t("use.ofAsked", { n: percent(cpuUse) }) : undefined,
    });
    out.push({ word: t("use.memory"), value: bytes(quantity(use.memory)) });
    if (scaling) {
      const note = t("use.against", { count: use.ranks, base: scaling.baseRanks, task: scaling.baseTask });
      out.push({ word: t("use.scaling"), value: percent(scaling.efficiency), note });
    }
    if (saves) {
      const note = t("use.savesNote", { whole: wholeSaves, begun: saves });
      out.push({ word: t("use.saves"), value: percent(wholeSaves / saves), note });
    }
    if (use.crossZone) {
      out.push({ word: t("use.crossZone"), value: `${bytes(quantity(use.crossZone))}/s`, note: t("use.estimated") });
    }
  }
  const mean = interruptions && meanOf(interruptions);
  if (mean) {
    const note = t(mean.whole < recoveryGoal ? "recovery.within" : "recovery.beyond");
    const value = `${(mean.whole / 1000).toFixed(2)} ${t("unit.second")}`;
    out.push({ word: t("recovery.mean"), value, note, bad: mean.whole >= recoveryGoal });
  }
  return out;
}
