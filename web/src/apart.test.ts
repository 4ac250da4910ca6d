import { describe, expect, it } from "vitest";
import { between, type Crossing, crossingWords, type Distance, millis, note } from "./apart";

const t = ((key: string, values?: Record<string, unknown>) =>
  values ? `${key} ${Object.values(values).join(" ")}` : key) as never;

const far: Distance = {
  from: "a",
  to: "b",
  usedMs: 12,
  source: "declared",
  class: "far",
  action: { en: "far", zh: "远" },
  efficiency: 60,
  declaredMs: 12,
};
const measured = { p50Ms: 13.256, p99Ms: 14, at: "2026-11-18T12:00:00Z", fromNode: "a1", toNode: "b2" };

describe("distances", () => {
  it("finds a pair whichever comes first", () => {
    expect(between([far], "b", "a")).toBe(far);
    expect(between([far], "a", "c")).toBeUndefined();
  });
  it("says when and between whom it was measured", () => {
    expect(note({ ...far, measured }, t, "en")).toMatch(/^zones.measuredBetween 13.26 a1 b2 .*Nov/);
    expect(note({ ...far, measured: { ...measured, stale: true } }, t, "en")).toContain("zones.stale");
    expect(note({ ...far, measured: { ...measured, fromNode: undefined } }, t, "en")).toContain("zones.reported");
  });
  it("makes no figure up", () => {
    expect(note({ ...far, oneMachine: true }, t, "en")).toBe("zones.oneMachine");
    expect(note({ ...far, encrypted: true }, t, "en")).toBe("zones.notMeasuredzones.encrypted");
    expect(note(far, t, "en")).toBe("zones.notMeasured");
    const one: Crossing = { from: "a", to: "b", oneMachine: true };
    expect(crossingWords(one, far, t)).toBe("a – b: zones.oneMachine · zones.declaredAs 12 · zones.efficiency 60");
  });
  it("shows a task's cost", () => {
    const c: Crossing = { from: "a", to: "b", pairs: 2, latencyMs: 12.5, slowestMs: 14, fromNode: "a1", toNode: "b1" };
    expect(crossingWords(c, undefined, t)).toBe("a – b: task.crossed 12.5 a1 b1");
    expect(millis(0.034)).toBe("0.03");
  });
});
