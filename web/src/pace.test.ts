import i18next from "i18next";
import { beforeAll, expect, test } from "vitest";
import { chooseLanguage, startLanguages } from "./i18n/setup";
import { paceWords } from "./pace";

beforeAll(startLanguages);

test("the pace is told as far as it is known", async () => {
  const at = "2026-11-16T03:00:00Z";
  await chooseLanguage("en");
  const whole = {
    at,
    step: 7,
    stepTime: "250ms",
    samplesPerSecond: 12.345,
    tokensPerSecond: 4096.4,
    mfu: 0.5,
    dataWait: 0.125,
  };
  expect(paceWords(whole, i18next.t)).toBe(
    "step 7, 0.250 s each · 12.3 samples/s · 4,096 tokens/s · MFU 50.0 % (goal: above 55 %) · 12.5 % waiting for data",
  );
  expect(paceWords({ ...whole, mfu: 0.6 }, i18next.t)).toContain("MFU 60.0 % ·");
  expect(paceWords({ at, step: 7, stepTime: "1s", lossScale: 32768, skippedSteps: 2 }, i18next.t)).toBe(
    "step 7, 1.000 s each · loss scale 32,768, 2 steps skipped",
  );
  await chooseLanguage("zh");
  expect(paceWords({ at, step: 7, stepTime: "1s", lossScale: 65536 }, i18next.t)).toContain(
    "损失缩放 65,536，跳过 0 步",
  );
  expect(paceWords({ at, step: 7, stepTime: "1.5s" }, i18next.t)).toBe("第 7 步，每步 1.500 秒");
});
