import createClient from "openapi-fetch";
import { chosenLanguage, htmlLanguage } from "../i18n/setup";
import { credentials, forget } from "../session";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Task = Schemas["TrainingTask"];
export type Zone = Schemas["Zone"];
export type Node = Schemas["Node"];
export type NodeUse = Schemas["NodeUse"];
export type Text = Schemas["Text"];

/** A refusal of the server, or that it cannot be reached (status 0). */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    message: string,
    readonly hint = "",
    readonly fields: readonly Schemas["RefusedField"][] = [],
  ) {
    super(message);
  }
}

/** Headers every request of ours carries. */
export function headers(): Record<string, string> {
  return { ...credentials(), "Accept-Language": htmlLanguage(chosenLanguage()) };
}

/** fetch with our headers; throws Refused for everything that is no success. */
export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const response = await reach(new Request(path, { ...init, headers: { ...headers(), ...init.headers } }));
  if (!response.ok) throw await refusal(response);
  return response;
}

async function reach(request: Request): Promise<Response> {
  try {
    return await fetch(request);
  } catch (cause) {
    if (request.signal.aborted) throw cause;
    throw new Refused(0, "Unreachable", "");
  }
}

async function refusal(response: Response): Promise<Refused> {
  if (response.status === 401) forget();
  const body: unknown = await response.json().catch(() => undefined);
  return toRefused(response.status, body);
}

/** Reads a refusal out of whatever came; never trusts its shape. */
export function toRefused(status: number, body: unknown): Refused {
  const b = (typeof body === "object" && body !== null ? body : {}) as Partial<Schemas["Refusal"]>;
  return new Refused(
    status,
    b.reason ?? `HTTP${status}`,
    b.message ?? `HTTP ${status}`,
    b.hint,
    Array.isArray(b.fields) ? b.fields : [],
  );
}

export const api = createClient<paths>({ baseUrl: window.location.origin, fetch: reach });

api.use({
  onRequest({ request }) {
    for (const [name, value] of Object.entries(headers())) {
      if (!request.headers.has(name)) request.headers.set(name, value);
    }
    return request;
  },
  async onResponse({ response }) {
    if (!response.ok) throw await refusal(response);
  },
});

/** The data of an answer; refusals were thrown before. */
export async function dataOf<T>(answer: Promise<{ data?: { data: T } | undefined }>): Promise<T> {
  const { data } = await answer;
  if (!data) throw new Refused(0, "NoData", "");
  return data.data;
}
