import fc from "fast-check";
import { expect, test } from "vitest";
import { joinLines, type LogLine, plain, type RawLine, spans } from "./log";

const esc = "\u001b";
const line = (text: string, more: Partial<RawLine> = {}): RawLine => ({
  time: "",
  replica: "worker-0",
  stream: "stdout",
  text,
  ...more,
});
function joined(...batches: RawLine[][]): string[] {
  let n = 0;
  return batches.reduce<LogLine[]>((old, fresh) => joinLines(old, fresh, () => n++), []).map((l) => plain(l.text));
}

test("a progress bar is shown as it stands now", () => {
  expect(plain("  0%|   | 0/10\r 50%|## | 5/10\r100%|####| 10/10")).toBe("100%|####| 10/10");
  expect(plain("50 %\r")).toBe("50 %");
  expect(plain(`50 %\r${esc}[K`)).toBe("50 %");
  expect(plain("ends as on Windows\r")).toBe("ends as on Windows");
  expect(plain("\r\r")).toBe("");
});

test("parts of a line are one line, and a state takes the place of the one before", () => {
  const bar = [
    line("0 %", { partial: true }),
    line("50 %", { partial: true, replace: true }),
    line("said meanwhile", { stream: "stderr" }),
    line("100 %", { replace: true }),
    line("next"),
  ];
  expect(joined(bar)).toEqual(["100 %", "said meanwhile", "next"]);
  expect(joined(...bar.map((l) => [l]))).toEqual(["100 %", "said meanwhile", "next"]);
  expect(joined([line("a ", { partial: true }), line("b ", { partial: true })], [line("c")])).toEqual(["a b c"]);
  expect(joined([line("mine", { partial: true, rank: 0 }), line("yours", { rank: 1 })])).toEqual(["mine", "yours"]);
});

test("colours are colours, and no other command to a terminal does anything", () => {
  expect(spans(`a${esc}[31mred${esc}[1;92mgreen${esc}[0m.`)).toEqual([
    { text: "a" },
    { text: "red", colour: 1 },
    { text: "green", colour: 10, bold: true },
    { text: "." },
  ]);
  expect(spans(`${esc}[38;5;9mx${esc}[38;2;1;31;3my${esc}[48;5;31mz`).map((s) => s.colour)).toEqual([9, 9, 9]);
  for (const hostile of [
    `${esc}]0;title\u0007x`,
    `${esc}]8;;http://evil${esc}\\x`,
    `${esc}[2J${esc}[Hx`,
    `${esc}P+q544e${esc}\\x`,
    `${esc}cx`,
    "\u009b2Jx",
    "\u0007\u0008x",
    `x${esc}`,
    "\u202ex",
  ]) {
    expect(plain(hostile), JSON.stringify(hostile)).toBe("x");
  }
});

test("nothing that a terminal would obey is left of any line", () => {
  const pieces = fc.constantFrom(
    esc,
    "[",
    "]",
    "31",
    ";",
    "m",
    "K",
    "\r",
    "\u0007",
    "\u009b",
    "P",
    "\\",
    "text",
    "训练",
  );
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 30 }), (list) => {
      const text = list.join("");
      const shown = spans(text)
        .map((s) => s.text)
        .join("");
      expect(shown).toBe(plain(text));
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
      expect(shown).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
    }),
  );
});
