import type { TFunction } from "i18next";
import { expect, test } from "vitest";
import type { Task } from "./api/client";
import { quantity } from "./format";
import { figuresOf } from "./use";

const t = ((key: string) => key) as unknown as TFunction;
const at = "2026-11-16T06:00:00Z";

test("what is not measured has no figure", () => {
  expect(figuresOf({ metadata: {}, spec: {} } as Task, t)).toEqual([]);
  const use = { at, ranks: 2, cores: 1.5, memory: "1536" };
  expect(figuresOf({ metadata: {}, spec: {}, status: { use } } as Task, t).map((f) => [f.word, f.value])).toEqual([
    ["use.cores", "1.50"],
    ["use.memory", "1.5 KiB"],
  ]);
});

test("figures stand beside the goals", () => {
  const use = {
    at,
    ranks: 4,
    cores: 1,
    memory: "1Gi",
    devices: 4,
    deviceUse: 0.5,
    deviceMemory: "1Gi",
    deviceTotal: "2Gi",
    saves: 4,
    wholeSaves: 3,
    scaling: { efficiency: 0.9, baseRanks: 1, baseTask: "small" },
  };
  const pace = { at, step: 1, stepTime: "1s", mfu: 0.6 };
  const list = figuresOf({ metadata: {}, spec: {}, status: { use, pace } } as Task, t);
  const bad = Object.fromEntries(list.map((f) => [f.word, f.bad]));
  expect(bad.MFU).toBe(false);
  expect(bad["use.devices"]).toBe(true);
  expect(list.find((f) => f.word === "use.saves")?.value).toBe("75.0 %");
  expect(list.find((f) => f.word === "use.scaling")?.value).toBe("90.0 %");
});

test("a loss scale stands beside the steps that were skipped for it", () => {
  const pace = { at, step: 1, stepTime: "1s", lossScale: 65536 };
  const seen: unknown[] = [];
  const words = ((key: string, args?: unknown) => {
    if (args) seen.push(args);
    return key;
  }) as unknown as TFunction;
  expect(figuresOf({ metadata: {}, spec: {}, status: { pace } } as Task, words)).toEqual([
    { word: "use.lossScale", value: "65,536", note: "use.skipped" },
  ]);
  figuresOf({ metadata: {}, spec: {}, status: { pace: { ...pace, skippedSteps: 3 } } } as Task, words);
  expect(seen).toEqual([{ count: 0 }, { count: 3 }]);
});

test("quantities are read strictly", () => {
  expect(quantity("16Gi")).toBe(16 * 1024 ** 3);
  expect(quantity("1500")).toBe(1500);
  for (const bad of [undefined, "", "1Gx", "-1", "Gi"]) expect(quantity(bad)).toBeNaN();
});
