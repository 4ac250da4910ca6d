import {
  type InfiniteData,
  keepPreviousData,
  type QueryClient,
  useInfiniteQuery,
  useMutation,
  useQueries,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import type { CurveWish } from "../curves";
import { joinLines, type LogLine, type RawLine } from "../log";
import type { Packed } from "../pack";
import { byCookie, entered, forget, keep, leave, signedIn } from "../session";
import { api, ask, dataOf, type Node, type Schemas, type Task } from "./client";
import { type Liveness, useStream } from "./live";
import type { ServerEvent } from "./sse";

export type Phase = "Pending" | "Initializing" | "Running" | "Recovering" | "Completed" | "Failed" | "Stopped";
export const phases: readonly Phase[] = [
  "Pending",
  "Initializing",
  "Running",
  "Recovering",
  "Completed",
  "Failed",
  "Stopped",
];
export const sorts = ["-createdAt", "createdAt", "displayName", "-updatedAt"] as const;
export type Sort = (typeof sorts)[number];

export interface TaskFilter {
  phase?: Phase[];
  search?: string;
  sort?: Sort;
  limit?: number;
}

/** Every key under which something of the server is kept. */
/** How often the distances of zones are read again. */
const matrixInterval = 60_000;

export const keys = {
  matrix: ["zone-matrix"] as const,
  whoami: ["whoami"] as const,
  session: ["session"] as const,
  zones: ["zones"] as const,
  nodes: ["nodes"] as const,
  devices: ["devices"] as const,
  queues: ["queues"] as const,
  projects: ["projects"] as const,
  secrets: (project: string) => ["secrets", project] as const,
  figures: (project: string) => ["figures", project] as const,
  lists: ["tasks"] as const,
  list: (filter: TaskFilter) => ["tasks", filter] as const,
  task: (name: string) => ["task", name] as const,
  why: (name: string) => ["task", name, "why"] as const,
  events: (name: string) => ["task", name, "events"] as const,
  outputs: (name: string) => ["task", name, "outputs"] as const,
  replicas: (name: string) => ["task", name, "replicas"] as const,
  curveNames: (name: string) => ["task", name, "metrics"] as const,
  curve: (name: string, wish: CurveWish) => ["task", name, "metrics", wish] as const,
};

type TaskPage = { items: Task[]; next?: string; revision?: number };
type Listed<T> = { items: T[]; revision: number };

/** A page shows at most this many pages of 500. */
const maxPages = 40;

async function everything<T>(
  fetchPage: (cursor?: string) => Promise<{ items: T[] | null; next?: string; revision?: number }>,
): Promise<Listed<T>> {
  const out: Listed<T> = { items: [], revision: 0 };
  let cursor: string | undefined;
  for (let i = 0; i < maxPages; i++) {
    const page = await fetchPage(cursor);
    out.items.push(...(page.items ?? []));
    if (i === 0) out.revision = page.revision ?? 0;
    if (!page.next) break;
    cursor = page.next;
  }
  return out;
}

export function useWhoami() {
  return useQuery({
    queryKey: keys.whoami,
    queryFn: () => dataOf(api.GET("/api/v1/whoami")),
    enabled: signedIn(),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** Checks a token with the server and keeps it when it is good. */
export function useSignIn() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (token: string) => {
      const response = await ask("/api/v1/whoami", { headers: { Authorization: `Bearer ${token}` } });
      const body: { data: Schemas["Identity"] } = await response.json();
      client.clear();
      keep(token);
      return body.data;
    },
  });
}

/** Opens a session with a password; the server sets the cookie. */
export function usePasswordSignIn() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (body: { user: string; password: string }) => {
      await dataOf(api.POST("/api/v1/session", { body }));
      client.clear();
      entered();
    },
  });
}

/** Changes one's own password, which ends all sessions, this one too. */
export function useChangePassword(user: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (body: { password: string; current?: string }) => {
      await dataOf(api.PUT("/api/v1/users/{name}/password", { params: { path: { name: user } }, body }));
      if (!byCookie()) return;
      forget("passwordChanged");
      client.clear();
    },
  });
}

/** Ends all sessions of oneself, this one too; tokens stay. */
export function useSignOutEverywhere() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async () => {
      await dataOf(api.DELETE("/api/v1/sessions"));
      if (!byCookie()) return;
      forget("everywhere");
      client.clear();
    },
  });
}

export function useSession() {
  return useQuery({ queryKey: keys.session, queryFn: () => dataOf(api.GET("/api/v1/session")) });
}

export function useSignOut(): () => void {
  const client = useQueryClient();
  return () => {
    void leave().then(() => client.clear());
  };
}

export function useZones() {
  return useQuery({
    queryKey: keys.zones,
    queryFn: () =>
      everything((cursor) =>
        dataOf(api.GET("/api/v1/zones", { params: { query: { limit: 500, sort: "name", cursor } } })),
      ),
  });
}

/** How far zones are from each other; measured by tasks, so it changes seldom. */
export function useZoneMatrix(wanted = true) {
  return useQuery({
    queryKey: keys.matrix,
    queryFn: async () => (await dataOf(api.GET("/api/v1/zone-matrix"))).items ?? [],
    refetchInterval: matrixInterval,
    enabled: wanted,
  });
}

/** The nodes, live. Zones count their nodes, so they are read again with them. */
export function useNodes() {
  const client = useQueryClient();
  const query = useQuery({
    queryKey: keys.nodes,
    queryFn: () =>
      everything<Node>((cursor) =>
        dataOf(api.GET("/api/v1/nodes", { params: { query: { limit: 500, sort: "name", cursor } } })),
      ),
  });
  const again = useSoon(() => {
    void client.invalidateQueries({ queryKey: keys.nodes });
    void client.invalidateQueries({ queryKey: keys.zones });
  });
  const live = useKindStream("nodes", query.data?.revision, again);
  return { ...query, live };
}

/** What others begin and end is not streamed to who may not see it; it is asked for as often. */
const deviceInterval = 4_000;

/**
 * Which devices are in use, by tasks of all projects: the same for everybody. It follows one's own tasks at
 * once, those of others a little later.
 */
export function useDevices() {
  const client = useQueryClient();
  const query = useQuery({
    queryKey: keys.devices,
    queryFn: async () => {
      const { items, revision } = await dataOf(api.GET("/api/v1/devices"));
      return { items: items ?? [], revision };
    },
    refetchInterval: deviceInterval,
  });
  const again = useSoon(() => void client.invalidateQueries({ queryKey: keys.devices }));
  useKindStream("placements", query.data?.revision, again);
  return query;
}

/** Calls again on every change of a kind. */
function useKindStream(plural: string, revision: number | undefined, again: () => void): Liveness {
  const since = revision === undefined ? undefined : String(revision);
  return useStream(`/api/v1/watch/${plural}`, {
    enabled: revision !== undefined,
    since,
    onGap: again,
    onEvent: (event) => {
      if (event.name === "synced" ? syncedElsewhere(event, since) : event.name !== "reset" && event.name !== "kept") {
        again();
      }
    },
  });
}

/** Whether the stream began at another revision than the list: something may have gone unseen. */
function syncedElsewhere(event: ServerEvent, since: string | undefined): boolean {
  return event.id !== since;
}

export function useQueues() {
  return useQuery({
    queryKey: keys.queues,
    queryFn: () =>
      everything((cursor) => dataOf(api.GET("/api/v1/queues", { params: { query: { limit: 500, cursor } } }))),
  });
}

/** The secrets of a project: their names and keys, never a value. */
export function useSecrets(project: string) {
  return useQuery({
    queryKey: keys.secrets(project),
    enabled: project !== "",
    queryFn: () =>
      everything((cursor) =>
        dataOf(api.GET("/api/v1/secrets", { params: { query: { project, limit: 500, sort: "name", cursor } } })),
      ),
  });
}

export function useProjects() {
  return useQuery({
    queryKey: keys.projects,
    queryFn: () =>
      everything((cursor) =>
        dataOf(api.GET("/api/v1/projects", { params: { query: { limit: 500, sort: "name", cursor } } })),
      ),
  });
}

/** How well the tasks of a project, or of all, do together; measured on and on, and so read again and again. */
export function useFigures(project: string) {
  return useQuery({
    queryKey: keys.figures(project),
    queryFn: () => dataOf(api.GET("/api/v1/figures", { params: { query: { project: project || undefined } } })),
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });
}

export function useTasks(filter: TaskFilter) {
  return useInfiniteQuery({
    queryKey: keys.list(filter),
    initialPageParam: "",
    placeholderData: keepPreviousData,
    queryFn: async ({ pageParam }): Promise<TaskPage> => {
      const { phase, search, sort, limit } = filter;
      const query = { phase, search: search || undefined, sort, limit: limit ?? 50, cursor: pageParam || undefined };
      const page = await dataOf(api.GET("/api/v1/training-tasks", { params: { query } }));
      return { ...page, items: page.items ?? [] };
    },
    getNextPageParam: (page) => page.next,
  });
}

/** Keeps every list of tasks live over one stream; since is the revision of a list already read. */
export function useTaskStream(since: number | undefined): Liveness {
  const client = useQueryClient();
  const from = since === undefined ? undefined : String(since);
  const again = useSoon(() => {
    void client.invalidateQueries({ queryKey: keys.lists });
    void client.invalidateQueries({ queryKey: keys.queues });
  });
  return useStream("/api/v1/watch/training-tasks", {
    enabled: since !== undefined,
    since: from,
    onGap: again,
    onEvent: (event) => {
      if (event.name === "added" || event.name === "modified") patchLists(client, JSON.parse(event.data));
      if (event.name === "synced" ? syncedElsewhere(event, from) : event.name !== "reset" && event.name !== "kept") {
        again();
      }
    },
  });
}

/** Puts a newer task into the lists it is in. */
function patchLists(client: QueryClient, task: Task): void {
  client.setQueriesData<InfiniteData<TaskPage>>(
    { queryKey: keys.lists },
    (old) =>
      old && {
        ...old,
        pages: old.pages.map((page) => ({ ...page, items: page.items.map((t) => newer(t, task)) })),
      },
  );
}

export function newer(old: Task, next: Task): Task {
  return old.metadata.id === next.metadata.id && (next.metadata.revision ?? 0) > (old.metadata.revision ?? 0)
    ? next
    : old;
}

const one = (name: string) => ({ params: { path: { name } } });

/** A call that, with force, ends also the task inside the one it names. */
export const insisting = (name: string, force: boolean) => ({
  params: { path: { name }, query: force ? { force } : {} },
});

/** One task, live; what hangs on it is read again whenever it changes. */
export function useTask(name: string) {
  const client = useQueryClient();
  const query = useQuery({
    queryKey: keys.task(name),
    queryFn: () => dataOf(api.GET("/api/v1/training-tasks/{name}", one(name))),
  });
  const again = useSoon(() => void client.invalidateQueries({ queryKey: keys.task(name) }));
  const live = useStream(`/api/v1/watch/training-tasks?name=${encodeURIComponent(name)}`, {
    enabled: query.data !== undefined,
    onGap: again,
    onEvent: (event) => {
      if (event.name === "added" || event.name === "modified") {
        const next: Task = JSON.parse(event.data);
        client.setQueryData<Task>(keys.task(name), (old) => (old ? newer(old, next) : next));
      }
      if (event.name === "modified" || event.name === "deleted") again();
    },
  });
  return { ...query, live };
}

/** One task as it is now. */
export function useTaskOnce(name: string) {
  return useQuery({
    queryKey: keys.task(name),
    queryFn: () => dataOf(api.GET("/api/v1/training-tasks/{name}", one(name))),
  });
}

export function useWhy(name: string) {
  return useQuery({
    queryKey: keys.why(name),
    queryFn: () => dataOf(api.GET("/api/v1/training-tasks/{name}/why", one(name))),
  });
}

export function useTaskEvents(name: string) {
  return useQuery({
    queryKey: keys.events(name),
    queryFn: async () => {
      const query = { limit: 200 };
      const list = await dataOf(api.GET("/api/v1/training-tasks/{name}/events", { params: { path: { name }, query } }));
      return list.items ?? [];
    },
  });
}

export function useOutputs(name: string) {
  return useQuery({
    queryKey: keys.outputs(name),
    queryFn: async () => {
      const query = { limit: 1000 };
      const page = await dataOf(
        api.GET("/api/v1/training-tasks/{name}/outputs", { params: { path: { name }, query } }),
      );
      return page.items ?? [];
    },
  });
}

/** How often curves of a task that runs are read again. */
const curvesEvery = 5000;

export function useCurveNames(name: string, live: boolean) {
  return useQuery({
    queryKey: keys.curveNames(name),
    refetchInterval: live ? curvesEvery : false,
    queryFn: async () => {
      const d = await dataOf(api.GET("/api/v1/training-tasks/{name}/metrics", { params: { path: { name } } }));
      return { items: d.items ?? [], dropped: d.dropped };
    },
  });
}

/** One curve of several tasks; a task that lacks it has none. */
export function useCurves(names: string[], wish: CurveWish, live: boolean) {
  return useQueries({
    queries: names.map((name) => ({
      queryKey: keys.curve(name, wish),
      placeholderData: keepPreviousData,
      refetchInterval: live && !wish.range ? curvesEvery : (false as const),
      queryFn: () => {
        const { range, by } = wish;
        const query = {
          name: [wish.name],
          rank: wish.rank === "all" ? ["all"] : undefined,
          replica: wish.rank === "all" ? ["all"] : undefined,
          generation: wish.all ? "all" : undefined,
          by,
          points: 1000,
          ...(range && by === "step" ? { fromStep: range.from, toStep: range.to } : {}),
          ...(range && by === "time"
            ? { since: new Date(range.from).toISOString(), until: new Date(range.to).toISOString() }
            : {}),
        };
        return dataOf(api.GET("/api/v1/training-tasks/{name}/metrics/points", { params: { path: { name }, query } }));
      },
    })),
  });
}

export function useReplicas(name: string) {
  return useQuery({
    queryKey: keys.replicas(name),
    queryFn: async () => (await dataOf(api.GET("/api/v1/training-tasks/{name}/replicas", one(name)))).items ?? [],
  });
}

export function useStop(name: string) {
  const client = useQueryClient();
  return useMutation({
    // force: also end the task that trains inside it
    mutationFn: ({ force }: { force: boolean }) =>
      dataOf(api.POST("/api/v1/training-tasks/{name}/stop", insisting(name, force))),
    onSuccess: (task) => client.setQueryData<Task>(keys.task(name), (old) => (old ? newer(old, task) : task)),
    onError: () => client.invalidateQueries({ queryKey: keys.task(name) }), // who trains inside may be new
  });
}

/** Submits the same work once more, as it was. */
export function useRunAgain(name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => dataOf(api.POST("/api/v1/training-tasks/{name}/clone", one(name))),
    onSuccess: () => client.invalidateQueries({ queryKey: keys.lists }),
  });
}

/** Saves one output as a file. */
export function useDownload(name: string) {
  return useMutation({
    mutationFn: async (path: string) => {
      const parts = path.split("/").map(encodeURIComponent).join("/");
      const response = await ask(`/api/v1/training-tasks/${encodeURIComponent(name)}/outputs/${parts}`);
      saveFile(path.split("/").at(-1) ?? "output", await response.blob());
    },
  });
}

/** Has the browser keep bytes as a file. */
export function saveFile(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

const asYaml = { "Content-Type": "application/yaml" };

/** What the framework would make of a manifest as it is written; nothing is submitted. */
export function useRecipe(yaml: string) {
  return useQuery({
    queryKey: ["recipe", yaml],
    retry: false,
    queryFn: async () => {
      const response = await ask("/api/v1/training-tasks/recipe", { method: "POST", body: yaml, headers: asYaml });
      const body: { data: Schemas["Recipe"] } = await response.json();
      return body.data;
    },
  });
}

/** Code that was packed and sent. */
export interface SentCode extends Omit<Packed, "blob"> {
  digest: string;
}

/** Packs files that were chosen and sends them as an archive; the same bytes twice are kept once. */
export function useSendCode() {
  const { t } = useTranslation();
  return useMutation({
    mutationFn: async ({ files, project }: { files: readonly File[]; project: string }): Promise<SentCode> => {
      const { CantPack, chosenFrom, pack } = await import("../pack");
      try {
        const { blob, ...packed } = await pack(chosenFrom(files));
        const headers = { "Content-Type": "application/octet-stream" };
        const of = project === "" ? "" : `?project=${encodeURIComponent(project)}`; // whose members may use it
        const response = await ask(`/api/v1/archives${of}`, { method: "POST", body: blob, headers });
        const body: { data: { digest: string } } = await response.json();
        return { ...packed, digest: body.data.digest };
      } catch (error) {
        if (error instanceof CantPack) throw new Error(t(`pack.${error.why}`));
        if (error instanceof DOMException) throw new Error(t("pack.unreadable")); // it was changed or taken away
        throw error;
      }
    },
  });
}

/** What running tasks would be together as the nodes of a training; nothing is submitted. */
export function useInside(project: string, names: string[], framework: string) {
  return useQuery({
    queryKey: ["inside", project, names, framework],
    enabled: names.length > 0,
    retry: false,
    placeholderData: keepPreviousData,
    queryFn: () => {
      const body = {
        taskName: "preview",
        launchMode: "existing" as const,
        distributedConfig: {
          enabled: names.length > 1,
          nodeIds: names,
          framework: (framework || "plain") as Schemas["ExistingPreview"]["framework"],
        },
      };
      const params = { query: { project: project || undefined } };
      return dataOf(api.POST("/api/v1/training-tasks/existing/preview", { body, params }));
    },
  });
}

/** Submits a manifest as it is written; with dryRun it is only checked. */
export function useSubmit() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async ({ yaml, dryRun }: { yaml: string; dryRun: boolean }) => {
      const path = `/api/v1/training-tasks${dryRun ? "?dryRun=true" : ""}`;
      const response = await ask(path, { method: "POST", body: yaml, headers: asYaml });
      const body: { data: Schemas["Submitted"] } = await response.json();
      return { ...body.data, dryRun };
    },
    onSuccess: ({ dryRun }) => {
      if (!dryRun) void client.invalidateQueries({ queryKey: keys.lists });
    },
  });
}

export const maxLogLines = 2000;

/** The end of the log of a task, or of other work, growing while it runs. */
export function useLog(
  name: string,
  plural = "training-tasks",
): { lines: readonly LogLine[]; dropped: boolean; state: Liveness } {
  const [shown, setShown] = useState<{ lines: LogLine[]; dropped: boolean }>({ lines: [], dropped: false });
  const waiting = useRef<RawLine[]>([]);
  const count = useRef(0);
  const flush = useSoon(() => {
    const fresh = waiting.current;
    waiting.current = [];
    setShown((old) => {
      const lines = joinLines(old.lines, fresh, () => count.current++);
      const over = lines.length > maxLogLines;
      return { lines: over ? lines.slice(-maxLogLines) : lines, dropped: old.dropped || over };
    });
  }, 80);
  const path = `/api/v1/${plural}/${encodeURIComponent(name)}/logs?follow=true&tail=${maxLogLines}`;
  const state = useStream(path, {
    onGap: () => {
      waiting.current = []; // the log comes again from its tail
      setShown({ lines: [], dropped: false });
    },
    onEvent: (event) => {
      if (event.name !== "message") return;
      waiting.current.push(JSON.parse(event.data) as RawLine);
      if (waiting.current.length > 2 * maxLogLines) waiting.current.shift();
      flush();
    },
  });
  return { ...shown, state };
}

/** A call that happens once, soon, however often it is asked for. */
export function useSoon(action: () => void, ms = 300): () => void {
  const latest = useRef(action);
  latest.current = action;
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    if (timer.current !== undefined) return;
    timer.current = setTimeout(() => {
      timer.current = undefined;
      latest.current();
    }, ms);
  }, [ms]);
}
