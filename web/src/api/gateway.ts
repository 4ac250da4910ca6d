// Questions to services, through the gateway at the console's own address.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { api, ask, dataOf, headers, Refused, type Schemas, toRefused } from "./client";
import { readEvents } from "./sse";

/** fetch with our credentials. What a service refuses says nothing of our own session: a 401 of it signs nobody out. */
async function askService(path: string, init: RequestInit): Promise<Response> {
  const { signal } = init;
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers: { ...headers(), ...init.headers } });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new Refused(0, "Unreachable", "");
  }
  return response;
}

async function refusedBy(response: Response): Promise<Refused> {
  const text = await response.text();
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return new Refused(response.status, `HTTP${response.status}`, text.slice(0, 500) || `HTTP ${response.status}`);
  }
  const told = body as { message?: unknown; error?: { message?: unknown } | string };
  if (typeof told?.message === "string") return toRefused(response.status, body);
  const inner = typeof told?.error === "object" ? told.error?.message : told?.error;
  return new Refused(
    response.status,
    `HTTP${response.status}`,
    typeof inner === "string" ? inner : `HTTP ${response.status}`,
  );
}

export interface Message {
  role: "user" | "assistant";
  content: string;
}

/** How an answer came, as this page saw it. */
export interface Timing {
  first?: number; // ms until the first word
  whole?: number; // ms until the end
}

/** The text of one event of an answer; undefined: it has none. */
export function wordOf(data: string): string | undefined {
  if (data === "[DONE]") return undefined;
  try {
    const chunk = JSON.parse(data) as { choices?: { delta?: { content?: unknown } }[] };
    const content = chunk.choices?.[0]?.delta?.content;
    return typeof content === "string" ? content : undefined;
  } catch {
    return undefined;
  }
}

/** A conversation with a service that speaks OpenAI's chat; answers appear as they come. */
export function useChat(model: string) {
  const [messages, setMessages] = useState<Message[]>([]);
  const [timing, setTiming] = useState<Timing>({});
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const end = useRef<AbortController>(undefined);
  async function send(content: string): Promise<void> {
    const asked: Message[] = [...messages, { role: "user", content }];
    const stop = new AbortController();
    end.current = stop;
    setMessages([...asked, { role: "assistant", content: "" }]);
    setTiming({});
    setError(null);
    setBusy(true);
    const begun = performance.now();
    let answer = "";
    let told: Timing = {};
    try {
      const response = await askService("/v1/chat/completions", {
        method: "POST",
        headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
        body: JSON.stringify({ model, stream: true, messages: asked }),
        signal: stop.signal,
      });
      if (!response.ok) throw await refusedBy(response);
      await readEvents(response, (event) => {
        const word = wordOf(event.data);
        if (!word) return;
        if (answer === "") told = { first: performance.now() - begun };
        answer += word;
        setMessages([...asked, { role: "assistant", content: answer }]);
        setTiming(told);
      });
      setTiming({ ...told, whole: performance.now() - begun });
    } catch (cause) {
      if (!stop.signal.aborted) setError(cause instanceof Error ? cause : new Error(String(cause)));
      if (answer === "") setMessages(asked.slice(0, -1)); // it was not answered: it can be sent again
    } finally {
      setBusy(false);
    }
  }
  return {
    messages,
    timing,
    error,
    busy,
    send,
    stop: () => end.current?.abort(),
    clear: () => {
      setMessages([]);
      setTiming({});
      setError(null);
    },
  };
}

/** The most of an answer that is shown. */
const maxAnswer = 256 << 10;

export interface Answer {
  status: number;
  media: string;
  text: string;
  ms: number;
  cut: boolean;
}

/** One plain question to a service. Whatever it answers is shown, a refusal too. */
export function useAsk(name: string) {
  return useMutation({
    mutationFn: async ({ method, path, body }: { method: string; path: string; body: string }): Promise<Answer> => {
      const begun = performance.now();
      const response = await askService(`/inference/${encodeURIComponent(name)}/${path.replace(/^\/+/, "")}`, {
        method,
        ...(body !== "" && method !== "GET" ? { body, headers: { "Content-Type": "application/json" } } : {}),
      });
      const text = await response.text();
      return {
        status: response.status,
        media: response.headers.get("Content-Type") ?? "",
        text: text.slice(0, maxAnswer),
        ms: performance.now() - begun,
        cut: text.length > maxAnswer,
      };
    },
  });
}

const keysKey = ["tokens", "inference"] as const;
export type ApiKey = Schemas["Token"];

/** Keys that open the services of a project, and nothing else. */
export function useKeys(project: string) {
  return useQuery({
    queryKey: [...keysKey, project],
    queryFn: async () => {
      const page = await dataOf(api.GET("/api/v1/tokens", { params: { query: { limit: 500, sort: "-createdAt" } } }));
      return (page.items ?? []).filter(
        ({ spec }) => String(spec?.scope) === "inference" && (spec?.projects ?? []).includes(project),
      );
    },
  });
}

/** Makes a key; its secret is shown this once. */
export function useMakeKey(project: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async ({ name, days }: { name: string; days: number }) => {
      const until = new Date(Date.now() + days * 86_400_000).toISOString();
      const spec = { scope: "inference", projects: [project], ...(days > 0 ? { expiresAt: until } : {}) };
      const response = await ask("/api/v1/tokens", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ metadata: { displayName: name }, spec }),
      });
      const body: { data: { secret: string } } = await response.json();
      return body.data.secret;
    },
    onSuccess: () => client.invalidateQueries({ queryKey: keysKey }),
  });
}

export function useRevokeKey() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (name: string) => dataOf(api.DELETE("/api/v1/tokens/{name}", { params: { path: { name } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: keysKey }),
  });
}
