import { expect, test } from "vitest";
import { patience } from "./live";
import { EventParser } from "./sse";

const wire = 'event: added\nid: 7\ndata: {"a":1}\n\n: alive\n\ndata: x\r\ndata: y\r\n\r\nevent: end\ndata: {}\n\n';

test("events come out whole, however the bytes were cut", () => {
  const whole = new EventParser().push(wire);
  expect(whole).toEqual([
    { name: "added", id: "7", data: '{"a":1}' },
    { name: "message", id: "", data: "x\ny" },
    { name: "end", id: "", data: "{}" },
  ]);
  for (let n = 1; n < 20; n++) {
    const parser = new EventParser();
    const out = [];
    for (let i = 0; i < wire.length; i += n) out.push(...parser.push(wire.slice(i, i + n)));
    expect(out).toEqual(whole);
  }
});

test("an event without end is refused", () => {
  const parser = new EventParser();
  expect(() => {
    for (let i = 0; i < 20; i++) parser.push("x".repeat(1 << 20));
  }).toThrow();
});

test("waiting grows and stays bounded", () => {
  expect(patience(0)).toBe(500);
  expect(patience(1)).toBe(1000);
  expect(patience(1000)).toBe(15_000);
});
