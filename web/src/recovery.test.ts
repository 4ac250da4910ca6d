import { expect, test } from "vitest";
import type { Schemas, Task } from "./api/client";
import { barOf, effective, lostSteps, meanOf, spanOf } from "./recovery";

const at = (s: number) => new Date(Date.UTC(2026, 10, 16, 3, 0, 0) + s * 1000).toISOString();
const now = Date.parse(at(100));
const recovery: Schemas["Recovery"] = {
  cause: "killed",
  rank: 3,
  node: "n01",
  failedAt: at(10),
  seenAt: at(11),
  attributedAt: at(11),
  openedAt: at(11.5),
  runningAt: at(13),
  steppedAt: at(14),
  endedAt: at(20),
};

test("durations are read as the server writes them, and nothing else is", () => {
  expect(spanOf("1h2m3.5s")).toBe(3_723_500);
  expect(spanOf("813.2ms")).toBeCloseTo(813.2);
  expect(spanOf("15.5µs")).toBeCloseTo(0.0155);
  for (const bad of [undefined, "", "5", "m", "1m!", "-1s"]) expect(spanOf(bad)).toBeNaN();
});

test("a recovery is its phases as far as it got", () => {
  expect(barOf(recovery, now).parts.map((p) => p.ms)).toEqual([1000, 0, 500, 1500, 1000, 6000]);
  expect(barOf(recovery, now).whole).toBe(10_000);
  expect(barOf(recovery, now)).toMatchObject({ cause: "killed", rank: 3, node: "n01" });
  expect(barOf({ ...recovery, source: "instant", restore: 12 }, now)).toMatchObject({ source: "instant", step: 12 });
  const under = barOf({ ...recovery, runningAt: undefined, steppedAt: undefined, endedAt: undefined }, now);
  expect(under.open).toBe(true);
  expect(under.parts.at(-1)).toEqual({ phase: "start", ms: 88_500 });
  // Ranks that report no steps: it ended when they ran.
  expect(barOf({ ...recovery, steppedAt: undefined, endedAt: at(13) }, now).parts).toHaveLength(4);
  // Clocks that disagree make nothing negative.
  expect(barOf({ ...recovery, seenAt: at(5) }, now).parts[0]?.ms).toBe(0);
});

test("the mean is over all that came back", () => {
  expect(meanOf(undefined)).toBeUndefined();
  expect(meanOf({ count: 1 })).toBeUndefined();
  const mean = meanOf({ count: 3, recovered: 2, phases: { detect: "1s", start: "3s", strange: "9s" } });
  expect(mean?.parts).toEqual([
    { phase: "detect", ms: 500 },
    { phase: "start", ms: 1500 },
  ]);
  expect(mean?.whole).toBe(2000);
});

test("effective time is what new steps took, and unknown without steps", () => {
  const task = (status: Task["status"]): Task =>
    ({ kind: "TrainingTask", metadata: {}, spec: { roles: [] }, status }) as unknown as Task;
  expect(effective(task({}), now)).toBeNaN();
  const time = {
    from: at(0),
    at: at(100),
    doing: "effective" as const,
    spent: { effective: "90s", recovering: "10s" },
  };
  expect(effective(task({ startedAt: at(0), time }), now)).toBeNaN();
  expect(effective(task({ startedAt: at(0), time: { ...time, step: 7 } }), now)).toBeCloseTo(0.9);
  const stalled = { ...time, step: 7, at: at(50), doing: "stalled" as const, spent: { effective: "50s" } };
  expect(effective(task({ startedAt: at(0), time: stalled }), now)).toBeCloseTo(0.5);
  expect(lostSteps({ count: 2, untold: 2 })).toBeUndefined();
  expect(lostSteps({ count: 2, untold: 1, lostSteps: 5 })).toEqual({ steps: 5, untold: 1 });
  const failed = { failedAt: at(0), seenAt: at(0), step: 640 };
  expect(lostSteps({ count: 1, last: [failed] })).toBeUndefined(); // nobody made a step since
  expect(lostSteps({ count: 2, lostSteps: 9, last: [failed] })).toEqual({ steps: 9, untold: 1 });
  expect(lostSteps({ count: 1, lostSteps: 0, last: [{ ...failed, lostSteps: 0 }] })).toEqual({ steps: 0, untold: 0 });
});
