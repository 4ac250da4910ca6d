// The line to a shell in a replica. The shell belongs to the replica: a line that is cut, or that falls behind, is
// opened again and goes on where it was. The language is that of docs/reference/terminals.md.
import { patience } from "../api/live";

/** What is at the other end of the eye: an emulator. */
export interface Screen {
  /** Shows bytes; done is called when they are shown. */
  write: (data: Uint8Array, done: () => void) => void;
  size: () => { columns: number; rows: number };
}

export type LineState =
  | { name: "connecting" }
  | { name: "open" }
  /** It was there, and is looked for again. */
  | { name: "cut" }
  | { name: "ended"; code: number; signal: string }
  | { name: "refused"; reason: string; message: string };

export interface LineConfig {
  /** A WebSocket to the terminal's route. */
  dial: () => WebSocket;
  /** The client's name for the shell; one that is there is attached to. */
  session: string;
  screen: Screen;
  onState: (state: LineState) => void;
  /** So many bytes of output are lost: they were printed while nobody was here. */
  onLost: (bytes: number) => void;
  /** Asks in plain words why there is no terminal; nothing where it may be tried again. */
  why: () => Promise<{ reason: string; message: string } | undefined>;
}

/** Bytes that the screen may be behind; beyond it the line is cut until the screen has shown them. */
const maxBehind = 2 << 20;
/** Characters typed while the line is cut, which are kept for it. */
const maxTyped = 64 << 10;
/** Attempts in a row after which it is asked why. */
const patient = 2;

interface News {
  type?: string;
  from?: number;
  code?: number;
  signal?: string;
  reason?: string;
  message?: string;
  retryable?: boolean;
}

export class Line {
  private socket: WebSocket | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private got = 0; // bytes of output that the screen has
  private behind = 0; // of these, not shown yet
  private waits = false; // for the screen
  private there = false; // the shell was seen: another one under its name is another shell
  private isOpen = false;
  private over = false;
  private failures = 0;
  private typed = "";

  constructor(private readonly config: LineConfig) {}

  /** Opens it; also again, after it was refused. */
  open(): void {
    this.over = false;
    this.failures = 0;
    this.connect();
  }

  /** Leaves the shell as it is. */
  leave(): void {
    this.over = true;
    clearTimeout(this.timer);
    this.socket?.close();
  }

  /** Ends the shell. */
  hangUp(): void {
    if (this.isOpen) this.say({ type: "close" });
    this.leave();
  }

  type(text: string): void {
    if (this.over) return;
    if (this.isOpen) this.socket?.send(new TextEncoder().encode(text));
    else this.typed = (this.typed + text).slice(0, maxTyped);
  }

  resize(): void {
    if (this.isOpen) this.say({ type: "resize", ...this.config.screen.size() });
  }

  private say(wish: object): void {
    this.socket?.send(JSON.stringify(wish));
  }

  private connect(): void {
    if (this.over) return;
    this.config.onState({ name: this.there ? "cut" : "connecting" });
    const socket = this.config.dial();
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () =>
      this.say({
        type: "open",
        session: this.config.session,
        tty: true,
        term: "xterm-256color",
        from: this.got,
        attach: this.there,
        ...this.config.screen.size(),
      });
    socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) => {
      if (socket !== this.socket || this.over) return;
      if (typeof event.data === "string") this.hear(event.data);
      else this.show(new Uint8Array(event.data));
    };
    socket.onclose = () => {
      if (socket !== this.socket || this.over) return;
      this.isOpen = false;
      if (this.waits) return; // the screen opens it again
      void this.again();
    };
  }

  /** Looks for the shell again, later each time; where that does not help, the server is asked why. */
  private async again(): Promise<void> {
    const n = this.failures++;
    this.config.onState({ name: this.there ? "cut" : "connecting" });
    if (n + 1 >= patient) {
      const answer = await this.config.why().catch(() => undefined);
      if (this.over) return;
      if (answer) return this.refuse(answer.reason, answer.message);
    }
    this.timer = setTimeout(() => this.connect(), patience(n));
  }

  private refuse(reason: string, message: string): void {
    this.over = true;
    this.isOpen = false;
    this.socket?.close();
    this.config.onState({ name: "refused", reason, message });
  }

  private hear(text: string): void {
    let news: News;
    try {
      news = JSON.parse(text) as News;
    } catch {
      return;
    }
    if (news.type === "opened") {
      const from = news.from ?? 0;
      if (this.there && from > this.got) this.config.onLost(from - this.got);
      this.got = from;
      this.there = true;
      this.isOpen = true;
      this.failures = 0;
      this.config.onState({ name: "open" });
      this.resize(); // the window may have changed since it was asked
      const typed = this.typed;
      this.typed = "";
      if (typed !== "") this.type(typed);
    } else if (news.type === "exit") {
      this.over = true;
      this.isOpen = false;
      this.config.onState({ name: "ended", code: news.code ?? 0, signal: news.signal ?? "" });
    } else if (news.type === "error" && !news.retryable) {
      this.refuse(news.reason ?? "", news.message ?? "");
    } // another error: the line closes now, and is opened again
  }

  private show(data: Uint8Array): void {
    const printed = data.subarray(1); // the first byte tells output from errors; a terminal has one stream
    this.got += printed.length;
    this.behind += printed.length;
    this.config.screen.write(printed, () => {
      this.behind -= printed.length;
      if (this.waits && this.behind === 0) {
        this.waits = false;
        this.connect();
      }
    });
    if (this.behind > maxBehind && !this.waits) {
      this.waits = true;
      this.isOpen = false;
      this.socket?.close();
    }
  }
}
