import { describe, expect, it } from "vitest";
import { around, difference } from "./difference";

describe("difference", () => {
  it("tells kept, new and gone lines apart, in order", () => {
    const marks = difference("a\nb\nc", "a\nx\nc\nd").map(({ sign, line }) => sign + line);
    expect(marks).toEqual([" a", "-b", "+x", " c", "+d"]);
  });
  it("is all kept for the same text", () => {
    expect(difference("a\nb", "a\nb").every(({ sign }) => sign === " ")).toBe(true);
  });
  it("shows only what lies near a change", () => {
    const before = Array.from({ length: 20 }, (_, i) => `line ${i}`).join("\n");
    const shown = around(difference(before, before.replace("line 10", "other")), 1);
    expect(shown.map(({ sign, line }) => sign + line)).toEqual([
      " …",
      " line 9",
      "-line 10",
      "+other",
      " line 11",
      " …",
    ]);
  });
});
