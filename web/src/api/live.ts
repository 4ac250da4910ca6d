import { useEffect, useRef, useState } from "react";
import { ask, Refused } from "./client";
import { readEvents, type ServerEvent } from "./sse";

/** What a stream is doing, for the little light beside a title. */
export type Liveness = "connecting" | "live" | "ended" | "failed";

interface Options {
  /** Called with each event. */
  onEvent: (event: ServerEvent) => void;
  /** Called when a stream was opened again: what happened in between is unknown. */
  onGap: () => void;
  /** The revision the page was read at; the stream goes on from there. */
  since?: string;
  enabled?: boolean;
}

/** Waits before attempt n to connect again, in milliseconds. */
export function patience(n: number): number {
  return Math.min(15_000, 500 * 2 ** Math.min(n, 5));
}

/**
 * Holds one event stream open while the page is visible: browsers allow six connections to a
 * host, and a hidden tab must not hold them.
 */
export function useStream(path: string, { onEvent, onGap, since, enabled = true }: Options): Liveness {
  const [state, setState] = useState<Liveness>("connecting");
  const calls = useRef({ onEvent, onGap, since });
  calls.current = { onEvent, onGap, since };
  const visible = useVisible();

  useEffect(() => {
    if (!enabled || !visible) return;
    const end = new AbortController();
    let last = calls.current.since ?? "";
    let opened = false;
    let failures = 0;
    async function once(): Promise<boolean> {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (last !== "") headers["Last-Event-ID"] = last;
      const response = await ask(path, { headers, signal: end.signal });
      if (opened) calls.current.onGap();
      opened = true;
      failures = 0;
      setState("live");
      let over = false;
      await readEvents(response, (event) => {
        if (event.id !== "") last = event.id;
        if (event.name === "end") over = true;
        if (event.name !== "error") calls.current.onEvent(event);
      });
      return over;
    }
    async function loop(): Promise<void> {
      while (!end.signal.aborted) {
        try {
          if (await once()) return setState("ended");
        } catch (cause) {
          if (end.signal.aborted) return;
          if (cause instanceof Refused && cause.status >= 400 && cause.status < 500 && cause.status !== 429) {
            return setState("failed");
          }
        }
        if (end.signal.aborted) return;
        setState("connecting");
        await pause(patience(failures++), end.signal);
      }
    }
    void loop();
    return () => end.abort();
  }, [path, enabled, visible]);

  // Back from hiding: the stream starts anew, so look at everything once.
  const hidden = useRef(false);
  useEffect(() => {
    if (!visible) hidden.current = true;
    else if (hidden.current) {
      hidden.current = false;
      calls.current.onGap();
    }
  }, [visible]);
  return state;
}

function useVisible(): boolean {
  const [visible, setVisible] = useState(() => document.visibilityState !== "hidden");
  useEffect(() => {
    const look = () => setVisible(document.visibilityState !== "hidden");
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  return visible;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
