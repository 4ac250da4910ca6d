// Curves of tasks, made ready for a chart.
import type { Schemas } from "./api/client";
import { bytes } from "./format";

export type Curve = Schemas["Curve"];
export type CurveName = Schemas["CurveName"];
export type By = "step" | "time";

/** What is asked for of a curve. */
export interface CurveWish {
  name: string;
  rank: "first" | "all";
  by: By;
  all: boolean; // generations
  range?: Range;
}

/** A part of the axis: steps, or Unix milliseconds. */
export interface Range {
  from: number;
  to: number;
}

/** A line of a chart: x rises, y is null where it is no finite number. */
export interface Line {
  label: string;
  x: number[];
  y: (number | null)[];
  /** What y was before it was smoothed. */
  raw: (number | null)[];
  broken: number; // values that are no finite numbers
}

/** Which curve is shown at first: what is trained for, then what is reported, then how fast it goes. */
export function firstNames(all: readonly CurveName[]): string[] {
  const names = all.map((c) => c.name);
  const loss = names.filter((n) => /loss/i.test(n));
  const reported = names.filter((n) => !n.startsWith("system/") && n !== "step_time");
  const pick = loss.length > 0 ? loss.slice(0, 1) : reported.slice(0, 1);
  const rest = ["step_time", "system/cpu"].filter((n) => names.includes(n));
  return [...pick, ...rest].slice(0, 2);
}

/** How one curve is told from the others of its chart. */
export function labelOf(
  c: Curve,
  task: string,
  several: { tasks: boolean; generations: boolean },
  rank: string,
): string {
  const who = c.rank === undefined ? (c.replica ?? c.role) : `${rank} ${c.rank}`;
  return [several.tasks ? task : "", who, several.generations ? `#${c.generation}` : ""]
    .filter((p) => p !== "")
    .join(" · ");
}

/** A curve as a line; equal places keep the last value, so that x only rises. */
export function lineOf(c: Curve, by: By, label: string, smooth: number): Line {
  const at = by === "step" ? c.steps : c.times;
  const values = c.values ?? [];
  const order = (at ?? []).map((x, i) => ({ x, i })).sort((a, b) => a.x - b.x || a.i - b.i);
  const x: number[] = [];
  const raw: (number | null)[] = [];
  for (const o of order) {
    const v = values[o.i] ?? null;
    if (x.length > 0 && x[x.length - 1] === o.x) raw[raw.length - 1] = v;
    else {
      x.push(o.x);
      raw.push(v);
    }
  }
  return { label, x, y: smoothed(raw, smooth), raw, broken: c.notFinite?.length ?? 0 };
}

/**
 * The exponential mean of what came so far, not drawn towards its beginning; a hole stays one. Weight 0 leaves everything as it is.
 */
export function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
  if (!(weight > 0)) return [...values];
  let sum = 0;
  let n = 0;
  return values.map((v) => {
    if (v === null) return null;
    sum = weight * sum + (1 - weight) * v;
    n++;
    return sum / (1 - weight ** n);
  });
}

/** Values of 0 or less have no place on a logarithmic axis. */
export function positive(line: Line): { line: Line; left: number } {
  let left = 0;
  const y = line.y.map((v) => {
    if (v !== null && v <= 0) {
      left++;
      return null;
    }
    return v;
  });
  return { line: { ...line, y }, left };
}

/** A value in words, as its curve has it. */
export function valueText(name: string, v: number | null | undefined): string {
  if (v === null || v === undefined) return "—";
  if (/(^|\/)(memory|device_memory)(\/|$)/.test(name)) return bytes(v);
  const size = Math.abs(v);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return v.toExponential(2);
  return String(Number(v.toPrecision(5)));
}
