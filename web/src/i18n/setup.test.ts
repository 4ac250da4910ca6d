import i18next from "i18next";
import { afterEach, beforeAll, expect, test, vi } from "vitest";
import { chooseLanguage, chosenLanguage, startLanguages } from "./setup";

const place = "fermi.language";

beforeAll(startLanguages);
afterEach(() => {
  vi.restoreAllMocks();
  localStorage.setItem(place, "zh");
});

test("the browser's language is the first; a choice counts from then on", async () => {
  const speaks = (tag: string) => vi.spyOn(navigator, "language", "get").mockReturnValue(tag);
  localStorage.removeItem(place);
  for (const [tag, want] of [
    ["zh-CN", "zh"],
    ["zh", "zh"],
    ["ZH-hant-TW", "zh"],
    ["en-US", "en"],
    ["de", "en"],
    ["", "en"],
    ["zha", "en"],
  ] as const) {
    speaks(tag);
    expect(chosenLanguage(), tag).toBe(want);
  }
  speaks("zh-CN");
  await chooseLanguage("en");
  expect(chosenLanguage()).toBe("en");
  localStorage.setItem(place, "nonsense");
  expect(chosenLanguage()).toBe("zh");
});

test("one thing is one thing", async () => {
  await chooseLanguage("en");
  expect(i18next.t("unit.replicas", { count: 1 })).toBe("1 replica");
  expect(i18next.t("unit.replicas", { count: 2 })).toBe("2 replicas");
  expect(i18next.t("recipe.ranks", { count: 1, framework: "plain" })).toBe("1 process, plain");
  expect(i18next.t("zones.nodes", { count: 1, ready: 1 })).toBe("1 of 1 node ready");
  await chooseLanguage("zh");
  expect(i18next.t("unit.replicas", { count: 1 })).toBe("1 副本");
});
