import { expect, test } from "vitest";
import type { Node, Task } from "./api/client";
import { bytes, duration, picture, said, sizes, span } from "./format";
import { en } from "./i18n/en";
import { zh } from "./i18n/zh";

test("durations are said in the two largest units", () => {
  const words = (ms: number) => duration(ms, (key) => en[key]);
  expect(words(171)).toBe("171 ms");
  expect(words(65_000)).toBe("1 m 5 s");
  expect(words(3_600_000)).toBe("1 h");
  expect(words(90_061_000)).toBe("1 d 1 h");
  expect(words(Number.NaN)).toBe("—");
  expect(words(-5)).toBe("—");
  expect(duration(65_000, (key) => zh[key])).toBe("1 分 5 秒");
});

test("bytes", () => {
  expect([0, 1023, 1536, 5 << 20, 200 * 1024].map(bytes)).toEqual(["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "200 KiB"]);
});

test("a text falls back to the other language", () => {
  expect(said({ en: "a", zh: "甲" }, "zh")).toBe("甲");
  expect(said({ en: "a" }, "zh")).toBe("a");
  expect(said(undefined, "en")).toBe("");
});

test("an elastic task says between how many it may have", () => {
  const task = (role: object, running = 0) =>
    ({ spec: { roles: [role] }, status: { replicas: { running } } }) as unknown as Task;
  expect(sizes(task({ replicas: 4, minReplicas: 2 }, 3))).toBe("3 / 2–4");
  expect(sizes(task({ replicas: 2, maxReplicas: 8 }))).toBe("0 / 2–8");
  expect(sizes(task({ replicas: 2, minReplicas: 2, maxReplicas: 2 }, 2))).toBe("");
});

test("the picture marks what is used, free and away", () => {
  const node = (number: number, ready: boolean): Node => ({
    metadata: { id: `node-${number}`, name: `n${number}` },
    spec: {
      number,
      zone: "z",
      cpu: "1",
      memory: "1Gi",
      devices: [0, 1, 2].map((index) => ({ index, type: "A100" })),
    },
    status: { ready },
  });
  const [one, two] = picture([node(1, true), node(2, false)], [{ node: "n1", used: [0, 2] }]);
  expect(one?.devices).toEqual(["used", "free", "used"]);
  expect(one?.used).toBe(2);
  expect(two?.devices).toEqual(["down", "down", "down"]);
});

test("both languages use the same values in the same sentence", () => {
  const values = (text: string) => [...text.matchAll(/{{(\w+)}}/g)].map((m) => m[1]).sort();
  for (const key of Object.keys(zh) as (keyof typeof zh)[]) {
    expect(values(en[key]), key).toEqual(values(zh[key]));
    expect(en[key], key).not.toBe("");
  }
});

test("a sentence is in one language", () => {
  // The button that leads to the other language says so in both.
  const free = ["nav.language", "nav.languageShort"];
  for (const [key, text] of Object.entries(en)) {
    if (!free.includes(key)) expect(text, key).not.toMatch(/[\u4e00-\u9fff]/);
  }
  for (const [key, text] of Object.entries(zh)) {
    if (!free.includes(key)) expect(text.replaceAll(/{{\w+}}/g, ""), key).not.toMatch(/[a-z]+ [a-z]+ [a-z]+ [a-z]+/);
  }
});

test("times as the server writes them are read", () => {
  expect(["2h0m0s", "90m", "1.5s", "250ms", "0s", "soon", "2h x"].map(span)).toEqual([
    7_200_000,
    5_400_000,
    1500,
    250,
    0,
    Number.NaN,
    Number.NaN,
  ]);
});
