import i18next from "i18next";
import { beforeAll, expect, test } from "vitest";
import { type Figures, gaugesOf, remarksOf } from "./figures";
import { startLanguages } from "./i18n/setup";

beforeAll(async () => {
  await startLanguages();
});

const view: Figures = {
  running: 2,
  figures: { device_use: 0.9, mfu: 0.4, recovery_seconds: 2.5, effective_time: 0.99991, samples_per_second: 1234.5 },
  goals: { device_use: 0.85, mfu: 0.55, recovery_seconds: 300 },
  interruptions: {
    count: 3,
    causes: { hang: 1, killed: 2 },
    lostSteps: 7,
    recovered: 2,
    phases: { detect: "1s", start: "4s" },
  },
};

test("figures stand beside their goals", () => {
  const [use, mfu, mean, effective] = gaugesOf(view, i18next.t);
  expect(use).toMatchObject({ value: "90.0 %", fill: 90, goal: 85, bad: false, note: "目标：高于 85 %" });
  expect(mfu).toMatchObject({ value: "40.0 %", bad: true, note: "目标：高于 55 %" });
  expect(mfu?.goal).toBeCloseTo(55);
  expect(mean).toMatchObject({ value: "2.50 秒", goal: 50, bad: false, note: "目标：低于 5 分钟" });
  expect(effective).toMatchObject({ value: "99.991 %", goal: undefined, bad: false });
});

test("a recovery far beyond its goal still fits its bar", () => {
  const slow = gaugesOf({ ...view, figures: { recovery_seconds: 1200 } }, i18next.t)[2];
  expect(slow).toMatchObject({ fill: 100, goal: 25, bad: true, value: "20 分 0 秒" });
});

test("what was not measured says so and is not bad", () => {
  const none = { ...view, figures: {}, interruptions: { count: 0 } };
  for (const g of gaugesOf(none, i18next.t))
    expect(g).toMatchObject({ value: "尚无数据", fill: undefined, bad: false });
  expect(remarksOf(none, i18next.t)).toEqual([]);
});

test("steps that nobody knows of are unknown", () => {
  const costs = { count: 3, untold: 3, causes: {} };
  expect(remarksOf({ ...view, interruptions: costs }, i18next.t)).toContain("重算步数 未知");
  expect(remarksOf({ ...view, interruptions: { ...costs, untold: 1, lostSteps: 7 } }, i18next.t)).toContain(
    "重算步数 7 (另有 1 次故障未知)",
  );
});

test("what failures cost is told, the most frequent cause first", () => {
  expect(remarksOf(view, i18next.t)).toEqual([
    "样本/秒 1,235",
    "故障次数 3 (killed × 2, hang × 1)",
    "重算步数 7",
    "恢复各阶段平均: 发现 0.50 秒, 启动 2.00 秒",
  ]);
});
