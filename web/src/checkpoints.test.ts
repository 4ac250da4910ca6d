import { expect, test } from "vitest";
import type { Task } from "./api/client";
import { abandoned, type Checkpoint, committed, marksOf, metricsOf, pinned, verdict } from "./checkpoints";

const name = (generation: number, step: number) =>
  `${String(generation).padStart(19, "0")}-${String(step).padStart(19, "0")}`;

function one(generation: number, step: number, tiers: string[], pin = false): Checkpoint {
  return {
    name: name(generation, step),
    step,
    generation,
    ranks: 1,
    size: "1",
    tiers: tiers.map((tier, i) => ({ tier, committedAt: `2026-11-16T0${9 - i}:00:00Z`, new: "1", pinned: pin })),
  } as Checkpoint;
}

const task = { metadata: {}, spec: {} } as Task;

test("a tier without a checkpoint has no row, and one checkpoint stands in the middle", () => {
  expect(marksOf([one(1, 5, ["local"])], task)).toEqual([
    { tier: "local", marks: [{ key: name(1, 5), step: 5, at: 50, pinned: false, abandoned: false }] },
  ]);
});

test("all tiers have one scale", () => {
  const rows = marksOf([one(1, 10, ["local"]), one(1, 20, ["shared"]), one(1, 30, ["local", "shared"], true)], task);
  expect(rows.map((r) => [r.tier, r.marks.map((m) => [m.at, m.pinned])])).toEqual([
    [
      "local",
      [
        [0, false],
        [100, true],
      ],
    ],
    [
      "shared",
      [
        [50, false],
        [100, true],
      ],
    ],
  ]);
});

test("what a restore gave up is told from what came after it", () => {
  const restore = { name: name(1, 10), step: 10, attempt: 1, generation: 1, at: "" };
  const back = { metadata: {}, spec: { restore } } as unknown as Task;
  const list = [one(1, 10, ["local"]), one(1, 20, ["local"]), one(2, 12, ["local"])];
  expect(list.map((c) => abandoned(c, back))).toEqual([false, true, false]);
  expect(list.map((c) => abandoned(c, task))).toEqual([false, false, false]);
});

test("the first commit counts, and any pin", () => {
  expect(committed(one(1, 1, ["local", "shared"]))).toBe("2026-11-16T08:00:00Z");
  expect(pinned(one(1, 1, ["local"], true))).toBe(true);
  expect(pinned(one(1, 1, ["local"]))).toBe(false);
});

test("damage in any tier counts more than that another was verified", () => {
  const c = one(1, 1, ["local", "shared"]);
  expect(verdict(c)).toEqual({ damage: undefined, verifying: false, at: "" });
  const [local, shared] = c.tiers ?? [];
  if (!local || !shared) throw new Error("two tiers");
  local.verifiedAt = "2026-11-16T10:00:00Z";
  shared.verifiedAt = "2026-11-16T11:00:00Z";
  expect(verdict(c).at).toBe("2026-11-16T11:00:00Z");
  const message = { en: "a chunk", zh: "数据块" };
  shared.damage = { at: "2026-11-16T12:00:00Z", message };
  shared.verifying = true;
  expect(verdict(c)).toMatchObject({ damage: message, verifying: true });
});

test("metrics are few, short and in order", () => {
  const c = one(1, 1, ["local"]);
  expect(metricsOf(c)).toBe("");
  c.metrics = { loss: 1 / 3, acc: 1 };
  expect(metricsOf(c)).toBe("acc=1 loss=0.33333");
  c.metrics = { a: 1, b: 1, c: 1, d: 1, e: 1 };
  expect(metricsOf(c)).toBe("a=1 b=1 c=1 d=1 …");
});
