// Every component of Mantine that the console uses has its styles: without them it is there and can't be seen.
import { expect, test } from "vitest";
import taken from "./styles.css?raw";

const code = import.meta.glob<string>("./**/*.tsx", { query: "?raw", import: "default", eager: true });
const sheets = Object.keys(import.meta.glob("../node_modules/@mantine/core/styles/*.css"));

test("every component has its styles", () => {
  const used = new Set<string>();
  for (const text of Object.values(code)) {
    const here = new Set<string>();
    for (const [, names = ""] of text.matchAll(/import \{([^}]*)\} from "@mantine\/core"/g)) {
      for (const name of names.split(",")) here.add(name.replace("type ", "").trim());
    }
    for (const [, outer = "", inner = ""] of text.matchAll(/<(\w+)\.(\w+)/g)) {
      if (here.has(outer)) here.add(outer + inner);
    }
    for (const name of here) used.add(name);
  }
  const missing = [...used].filter((n) => sheets.some((s) => s.endsWith(`/${n}.css`)) && !taken.includes(`/${n}.css"`));
  expect(used.size).toBeGreaterThan(30);
  expect(sheets.length).toBeGreaterThan(30);
  expect(missing).toEqual([]);
});
