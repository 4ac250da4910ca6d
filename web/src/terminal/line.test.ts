import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Line, type LineState } from "./line";
import { keepSessions, oneMore, sessionsOf } from "./sessions";

/** The server's side of a WebSocket. */
class Wire {
  binaryType = "";
  onopen: () => void = () => {};
  onmessage: (event: { data: unknown }) => void = () => {};
  onclose: () => void = () => {};
  sent: unknown[] = [];
  closed = false;
  send(data: unknown) {
    this.sent.push(typeof data === "string" ? JSON.parse(data) : new TextDecoder().decode(data as Uint8Array));
  }
  close() {
    if (this.closed) return;
    this.closed = true;
    this.onclose();
  }
  say(news: object) {
    this.onmessage({ data: JSON.stringify(news) });
  }
  print(text: string) {
    this.onmessage({ data: new Uint8Array([1, ...new TextEncoder().encode(text)]).buffer });
  }
}

interface World {
  wires: Wire[];
  states: LineState[];
  shown: string;
  lost: number[];
  hold: boolean;
  release: (() => void)[];
  why: { reason: string; message: string } | undefined;
  line: Line;
}

function world(): World {
  const w = {
    wires: [],
    states: [],
    shown: "",
    lost: [],
    hold: false,
    release: [],
    why: undefined,
  } as unknown as World;
  w.line = new Line({
    dial: () => {
      const wire = new Wire();
      w.wires.push(wire);
      return wire as unknown as WebSocket;
    },
    session: "s1",
    screen: {
      write: (data, done) => {
        w.shown += new TextDecoder().decode(data);
        if (w.hold) w.release.push(done);
        else done();
      },
      size: () => ({ columns: 80, rows: 24 }),
    },
    onState: (s) => w.states.push(s),
    onLost: (n) => w.lost.push(n),
    why: async () => w.why,
  });
  return w;
}

const last = <T>(list: T[]): T => list.at(-1) as T;

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test("a shell is opened, typed into, and found again where it was", async () => {
  const w = world();
  w.line.open();
  const first = last(w.wires);
  w.line.type("ls"); // before it is there: kept
  first.onopen();
  expect(first.sent[0]).toMatchObject({ type: "open", session: "s1", from: 0, attach: false, tty: true, columns: 80 });
  first.say({ type: "opened", session: "s1", fresh: true, from: 0 });
  expect(first.sent.slice(1)).toEqual([{ type: "resize", columns: 80, rows: 24 }, "ls"]);
  first.print("héllo");
  expect(w.shown).toBe("héllo");
  first.close(); // cut
  expect(last(w.states).name).toBe("cut");
  await vi.advanceTimersByTimeAsync(600);
  const second = last(w.wires);
  expect(second).not.toBe(first);
  second.onopen();
  expect(second.sent[0]).toMatchObject({ from: 6, attach: true });
  second.say({ type: "opened", from: 10 });
  expect(w.lost).toEqual([4]);
  expect(last(w.states).name).toBe("open");
  second.say({ type: "exit", code: 3 });
  expect(last(w.states)).toEqual({ name: "ended", code: 3, signal: "" });
  second.close();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(w.wires).toHaveLength(2);
});

test("what can't be retried is told, and what can is tried again", async () => {
  const w = world();
  w.line.open();
  last(w.wires).onopen();
  last(w.wires).say({ type: "error", reason: "LineLost", message: "", retryable: true });
  last(w.wires).close();
  await vi.advanceTimersByTimeAsync(600);
  expect(w.wires).toHaveLength(2);
  w.why = { reason: "NotOwner", message: "not yours" };
  last(w.wires).close(); // refused before it was a WebSocket: the reason is asked for
  await vi.advanceTimersByTimeAsync(60_000);
  expect(last(w.states)).toEqual({ name: "refused", reason: "NotOwner", message: "not yours" });
  expect(w.wires).toHaveLength(2);
  w.line.open(); // somebody tries again
  last(w.wires).onopen();
  last(w.wires).say({ type: "error", reason: "NoSession", message: "gone" });
  expect(last(w.states)).toMatchObject({ name: "refused", reason: "NoSession" });
});

test("a flood of output is never held beyond a bound", async () => {
  const w = world();
  w.hold = true;
  w.line.open();
  const first = last(w.wires);
  first.onopen();
  first.say({ type: "opened", from: 0 });
  for (let i = 0; i < 40 && !first.closed; i++) first.print("y".repeat(100_000));
  expect(first.closed).toBe(true);
  expect(w.shown.length).toBeLessThan(2.3 * 1024 * 1024);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(w.wires).toHaveLength(1); // it waits for the screen, not for a time
  for (const done of w.release) done();
  const second = last(w.wires);
  expect(second).not.toBe(first);
  second.onopen();
  expect(second.sent[0]).toMatchObject({ from: w.shown.length, attach: true });
});

test("leaving leaves the shell, hanging up ends it", () => {
  const w = world();
  w.line.open();
  const wire = last(w.wires);
  wire.onopen();
  wire.say({ type: "opened", from: 0 });
  w.line.hangUp();
  expect(last(wire.sent)).toEqual({ type: "close" });
  expect(wire.closed).toBe(true);
  const other = world();
  other.line.open();
  last(other.wires).onopen();
  last(other.wires).say({ type: "opened", from: 0 });
  other.line.leave();
  expect(last(other.wires).sent).not.toContainEqual({ type: "close" });
});

test("shells of a page are found again, and nonsense is none", () => {
  const one = oneMore([]);
  const two = oneMore([one]);
  expect([one.n, two.n]).toEqual([1, 2]);
  expect(one.id).toMatch(/^[A-Za-z0-9_-]{20}$/);
  keepSessions("x", [one, two]);
  expect(sessionsOf("x")).toEqual([one, two]);
  keepSessions("x", []);
  expect(sessionsOf("x")).toEqual([]);
  sessionStorage.setItem("fermi.shells.x", '{"a":1}');
  expect(sessionsOf("x")).toEqual([]);
  sessionStorage.setItem("fermi.shells.x", "nonsense");
  expect(sessionsOf("x")).toEqual([]);
});
