import { socketProtocols } from "../session";
import { ask, Refused } from "./client";

/** A WebSocket to a terminal; path is below /api/v1/. */
export function dialTerminal(path: string): WebSocket {
  const url = new URL(`/api/v1/${path}`, window.location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(url, socketProtocols());
}

/**
 * Why a terminal can't be opened: browsers hide the answer to a WebSocket that was refused, so it is asked for in
 * plain HTTP. Nothing where the refusal is only that, or where it may be another the next time.
 */
export async function whyNoTerminal(path: string): Promise<{ reason: string; message: string } | undefined> {
  try {
    await ask(`/api/v1/${path}`);
  } catch (error) {
    if (!(error instanceof Refused) || error.status < 400 || error.status >= 500 || error.status === 429)
      return undefined;
    if (error.reason === "WebSocketOnly") return undefined;
    return { reason: error.reason, message: error.message };
  }
  return undefined;
}
