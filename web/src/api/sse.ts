// Server-Sent Events over fetch: EventSource cannot carry a header.

export interface ServerEvent {
  name: string;
  id: string;
  data: string;
}

/** A longer event than this is no event of ours. */
const maxEvent = 8 << 20;

/** Cuts text into events; feed it chunks as they come. */
export class EventParser {
  private rest = "";
  private name = "";
  private id = "";
  private lines: string[] = [];
  private size = 0;

  push(chunk: string): ServerEvent[] {
    const out: ServerEvent[] = [];
    const parts = (this.rest + chunk).split("\n");
    this.rest = parts.pop() ?? "";
    if (this.rest.length > maxEvent) throw new Error("an event is too long");
    for (const raw of parts) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (this.lines.length > 0) {
          out.push({ name: this.name || "message", id: this.id, data: this.lines.join("\n") });
        }
        this.name = "";
        this.id = "";
        this.lines = [];
        this.size = 0;
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue; // a comment: the server lives
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "event") this.name = value;
      else if (field === "id") this.id = value;
      else if (field === "data") {
        this.size += value.length;
        if (this.size > maxEvent) throw new Error("an event is too long");
        this.lines.push(value);
      }
    }
    return out;
  }
}

/** Hands over every event of a response, in order, until it ends. */
export async function readEvents(response: Response, each: (event: ServerEvent) => void): Promise<void> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      for (const event of parser.push(value)) each(event);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
