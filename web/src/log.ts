// Lines of a log as people read them: parts joined, a progress bar as it stands now, colours as colours. What a
// program sent to a terminal is never obeyed otherwise.

/** A line, or a part of one, as the server sends it. */
export interface RawLine {
  time: string;
  replica: string;
  rank?: number;
  stream: string;
  text: string;
  /** The line goes on in the next one of the same replica, rank and stream. */
  partial?: boolean;
  /** The text takes the place of what the line was so far. */
  replace?: boolean;
}

export interface LogLine extends RawLine {
  key: number;
}

/** A line that never ends is cut here. */
const maxText = 64 << 10;

const sourceOf = (l: RawLine) => `${l.replica} ${l.rank ?? ""} ${l.stream}`;

/** The lines with fresh ones behind them; parts of a line are joined where the line stands. */
export function joinLines(old: readonly LogLine[], fresh: readonly RawLine[], nextKey: () => number): LogLine[] {
  const out = [...old];
  const open = new Map<string, number>();
  out.forEach((line, i) => {
    if (line.partial) open.set(sourceOf(line), i);
    else open.delete(sourceOf(line));
  });
  for (const line of fresh) {
    const source = sourceOf(line);
    const at = open.get(source);
    const before = at === undefined ? undefined : out[at];
    if (at !== undefined && before) {
      const text = line.replace ? line.text : (before.text + line.text).slice(0, maxText);
      out[at] = { ...before, text, partial: line.partial };
    } else {
      out.push({ ...line, key: nextKey() });
    }
    if (!line.partial) open.delete(source);
    else if (at === undefined) open.set(source, out.length - 1);
  }
  return out;
}

/** A piece of a line in one colour: one of the 16 of terminals, or none. */
export interface Span {
  text: string;
  colour?: number;
  bold?: boolean;
}

// A command to a terminal: CSI … letter; OSC, DCS, SOS, PM or APC … until its end; any other escape.
const escapes =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /(?:\u001b\[|\u009b)([0-?]*)[ -/]*([@-~])|(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)|\u001b[ -/]*[0-Z\\-~]/g;
// Everything else that is no text, and marks that let text run backwards.
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** A line as text alone. */
export function plain(text: string): string {
  return lastState(text).replace(escapes, "").replace(controls, "");
}

/** What stands on the terminal after carriage returns: the last thing that was written over the line. */
function lastState(text: string): string {
  if (!text.includes("\r")) return text;
  const states = text.split("\r");
  return states.findLast((s) => s.replace(escapes, "").replace(controls, "").trim() !== "") ?? "";
}

/** A line in its colours. */
export function spans(text: string): Span[] {
  const out: Span[] = [];
  const pen: { colour?: number; bold?: boolean } = {};
  const put = (piece: string) => {
    const clean = piece.replace(controls, "");
    if (clean !== "") out.push({ text: clean, ...pen });
  };
  const line = lastState(text);
  let from = 0;
  for (const m of line.matchAll(escapes)) {
    put(line.slice(from, m.index));
    from = m.index + m[0].length;
    if (m[2] === "m") draw(pen, m[1] ?? "");
  }
  put(line.slice(from));
  return out;
}

/** Takes up a colour. 256 colours and true colours are passed over with their numbers. */
function draw(pen: { colour?: number; bold?: boolean }, codes: string): void {
  const list = codes.split(/[;:]/).map(Number);
  for (let i = 0; i < list.length; i++) {
    const n = list[i] ?? 0;
    if (n === 0) {
      pen.colour = undefined;
      pen.bold = undefined;
    } else if (n === 1) pen.bold = true;
    else if (n === 22) pen.bold = undefined;
    else if (n === 39) pen.colour = undefined;
    else if (n >= 30 && n <= 37) pen.colour = n - 30;
    else if (n >= 90 && n <= 97) pen.colour = n - 82;
    else if (n === 38 || n === 48) {
      const next = list[i + 1];
      if (n === 38 && next === 5 && (list[i + 2] ?? 16) < 16) pen.colour = list[i + 2];
      i += next === 5 ? 2 : next === 2 ? 4 : 0;
    }
  }
}
