// Development environments and inference services: both are work that people start, stop and delete.
import {
  type InfiniteData,
  keepPreviousData,
  useInfiniteQuery,
  useMutation,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { ofEnvironment, ofTask } from "../hosts";
import { ask, type Schemas, type Task } from "./client";
import { type Liveness, useStream } from "./live";
import { useSoon } from "./queries";

export type Environment = Schemas["DevEnvironment"];
export type EnvironmentTemplate = Schemas["EnvironmentTemplate"];
export type Service = Schemas["InferenceService"];
export type Replica = Schemas["ServiceReplica"];
export type Usage = Schemas["UsageSum"];

interface Kinds {
  "dev-environments": Environment;
  "inference-services": Service;
}
export type Plural = keyof Kinds;
type Work = Kinds[Plural];

export interface WorkFilter {
  search?: string;
  phase?: readonly string[];
  limit?: number;
}

export const workKeys = {
  lists: (kind: Plural) => ["works", kind] as const,
  list: (kind: Plural, filter: WorkFilter) => ["works", kind, filter] as const,
  one: (kind: Plural, name: string) => ["work", kind, name] as const,
  part: (kind: Plural, name: string, part: string) => ["work", kind, name, part] as const,
  costs: (since: string, project: string) => ["costs", since, project] as const,
};

interface Page<T> {
  items: T[];
  next?: string;
  revision?: number;
}

async function read<T>(path: string, init?: RequestInit): Promise<T> {
  const response = await ask(`/api/v1/${path}`, init);
  const body: { data: T } = await response.json();
  return body.data;
}

const json = { "Content-Type": "application/json" };
const at = (kind: Plural, name: string, verb = "") => `${kind}/${encodeURIComponent(name)}${verb && `/${verb}`}`;

/** A list; again is how often it is read anew where no stream tells of changes, in ms. */
export function useWorks<K extends Plural>(kind: K, filter: WorkFilter, again?: number) {
  return useInfiniteQuery({
    queryKey: workKeys.list(kind, filter),
    refetchInterval: again ?? false,
    initialPageParam: "",
    placeholderData: keepPreviousData,
    queryFn: async ({ pageParam }): Promise<Page<Kinds[K]>> => {
      const query = new URLSearchParams({ sort: "-createdAt", limit: String(filter.limit ?? 50) });
      if (filter.search) query.set("search", filter.search);
      for (const phase of filter.phase ?? []) query.append("phase", phase);
      if (pageParam) query.set("cursor", pageParam);
      const page = await read<{ items: Kinds[K][] | null; next?: string; revision?: number }>(`${kind}?${query}`);
      return { ...page, items: page.items ?? [] };
    },
    getNextPageParam: (page) => page.next || undefined,
  });
}

/** Keeps the lists of a kind live; since is the revision of a list already read. */
export function useWorkStream(kind: Plural, since: number | undefined): Liveness {
  const client = useQueryClient();
  const from = since === undefined ? undefined : String(since);
  const again = useSoon(() => void client.invalidateQueries({ queryKey: workKeys.lists(kind) }));
  return useStream(`/api/v1/watch/${kind}`, {
    enabled: since !== undefined,
    since: from,
    onGap: again,
    onEvent: (event) => {
      if (event.name === "added" || event.name === "modified") {
        const next: Work = JSON.parse(event.data);
        client.setQueriesData<InfiniteData<Page<Work>>>(
          { queryKey: workKeys.lists(kind) },
          (old) =>
            old && { ...old, pages: old.pages.map((p) => ({ ...p, items: p.items.map((w) => newest(w, next)) })) },
        );
      }
      if (event.name === "synced" ? event.id !== from : event.name !== "reset" && event.name !== "kept") again();
    },
  });
}

function newest<T extends Work>(old: T, next: Work): T {
  return old.metadata.id === next.metadata.id && (next.metadata.revision ?? 0) > (old.metadata.revision ?? 0)
    ? (next as T)
    : old;
}

/** One of a kind, live; what hangs on it is read again whenever it changes. */
export function useWork<K extends Plural>(kind: K, name: string) {
  const client = useQueryClient();
  const key = workKeys.one(kind, name);
  const query = useQuery({ queryKey: key, queryFn: () => read<Kinds[K]>(at(kind, name)) });
  const again = useSoon(() => void client.invalidateQueries({ queryKey: key }));
  const live = useStream(`/api/v1/watch/${kind}?name=${encodeURIComponent(name)}`, {
    enabled: query.data !== undefined,
    onGap: again,
    onEvent: (event) => {
      if (event.name === "added" || event.name === "modified") {
        const next: Kinds[K] = JSON.parse(event.data);
        client.setQueryData<Kinds[K]>(key, (old) => (old ? newest(old, next) : next));
      }
      if (event.name === "modified" || event.name === "deleted") again();
    },
  });
  return { ...query, live };
}

export function useWorkWhy(kind: Plural, name: string) {
  return useQuery({
    queryKey: workKeys.part(kind, name, "why"),
    queryFn: () => read<Schemas["Explanation"]>(at(kind, name, "why")),
  });
}

/** How a service answered, read anew while it is looked at. */
export function useServiceFigures(name: string, since: string) {
  return useQuery({
    queryKey: [...workKeys.part("inference-services", name, "figures"), since],
    placeholderData: keepPreviousData,
    refetchInterval: since === "1h" ? 5_000 : 60_000,
    queryFn: () =>
      read<Schemas["Figures"]>(`${at("inference-services", name, "figures")}?since=${encodeURIComponent(since)}`),
  });
}

export function useWorkEvents(kind: Plural, name: string) {
  return useQuery({
    queryKey: workKeys.part(kind, name, "events"),
    refetchInterval: 10_000, // events of its replicas change nothing of it
    queryFn: async () =>
      (await read<{ items: Schemas["Event"][] | null }>(`${at(kind, name, "events")}?limit=200`)).items ?? [],
  });
}

/** Where an environment runs, or ran. */
export function useStays(name: string) {
  return useQuery({
    queryKey: workKeys.part("dev-environments", name, "replicas"),
    queryFn: async () =>
      (await read<{ items: Schemas["ReplicaView"][] | null }>(at("dev-environments", name, "replicas"))).items ?? [],
  });
}

/** Whether somebody works in an environment: its signals as they are now. */
export function useActivity(name: string, running: boolean) {
  return useQuery({
    queryKey: workKeys.part("dev-environments", name, "activity"),
    enabled: running,
    refetchInterval: 15_000,
    queryFn: () => read<Schemas["Activity"]>(at("dev-environments", name, "activity")),
  });
}

/** How often replicas of a service are read again. */
const replicasEvery = 2000;

export function useServiceReplicas(name: string, live: boolean) {
  return useQuery({
    queryKey: workKeys.part("inference-services", name, "replicas"),
    refetchInterval: live ? replicasEvery : false,
    queryFn: async () =>
      (await read<{ items: Replica[] | null }>(at("inference-services", name, "replicas"))).items ?? [],
  });
}

/** What each piece of work cost since a moment, by id. Undefined where the list was cut before it. */
export function useCosts(since: string | undefined, project = "") {
  return useQuery({
    queryKey: workKeys.costs(since ?? "", project),
    enabled: since !== undefined,
    refetchInterval: 30_000,
    placeholderData: keepPreviousData,
    queryFn: async () => {
      const query = new URLSearchParams({ by: "task", from: since ?? "", limit: "1000" });
      if (project) query.set("project", project);
      const { items } = await read<Schemas["UsageList"]>(`usage?${query}`);
      return { by: new Map((items ?? []).map((u) => [u.key, u])), whole: (items ?? []).length < 1000 };
    },
  });
}

/** What environments can be made after. */
export function useTemplates() {
  return useQuery({
    queryKey: ["environment-templates"],
    queryFn: async () =>
      (await read<{ items: EnvironmentTemplate[] | null }>("environment-templates?limit=200")).items ?? [],
  });
}

/** Start, stop, keep, snapshot: the verbs that need no words. */
export function useWorkVerb<K extends Plural>(kind: K, name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (verb: "start" | "stop" | "keep" | "snapshot") =>
      read<Kinds[K]>(at(kind, name, verb), { method: "POST" }),
    onSuccess: (next) => {
      client.setQueryData<Kinds[K]>(workKeys.one(kind, name), (old) => (old ? newest(old, next) : next));
      void client.invalidateQueries({ queryKey: workKeys.lists(kind) });
      void client.invalidateQueries({ queryKey: workKeys.part(kind, name, "activity") });
    },
  });
}

/** Has the home of an environment go elsewhere. */
export function useMove(name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (to: { zone: string; node: string; withoutLayer: boolean }) => {
      const query = new URLSearchParams();
      if (to.zone) query.set("zone", to.zone);
      if (to.node) query.set("node", to.node);
      if (to.withoutLayer) query.set("withoutLayer", "true");
      return read<Environment>(`${at("dev-environments", name, "move")}?${query}`, { method: "POST" });
    },
    onSuccess: (next) => {
      client.setQueryData<Environment>(workKeys.one("dev-environments", name), (old) =>
        old ? newest(old, next) : next,
      );
      void client.invalidateQueries({ queryKey: workKeys.lists("dev-environments") });
    },
  });
}

export function useScale(name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (replicas: number) =>
      read<Service>(at("inference-services", name, "scale"), {
        method: "POST",
        headers: json,
        body: JSON.stringify({ replicas }),
      }),
    onSuccess: (next) =>
      client.setQueryData<Service>(workKeys.one("inference-services", name), (old) => (old ? newest(old, next) : next)),
  });
}

/** Has a new revision go on to its next step, or go away. */
export function useServiceFlow(name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (verb: "promote" | "rollback") =>
      read<Service>(at("inference-services", name, verb), { method: "POST", headers: json, body: "{}" }),
    onSuccess: (next) =>
      client.setQueryData<Service>(workKeys.one("inference-services", name), (old) => (old ? newest(old, next) : next)),
  });
}

/** Changes what is wished of one, as it is now. Somebody else's change in between is refused. */
export function useRevise<K extends Plural>(kind: K, name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (change: (work: Kinds[K]) => Kinds[K]) => {
      const now = await read<Kinds[K]>(at(kind, name));
      return read<Kinds[K]>(at(kind, name), { method: "PUT", headers: json, body: JSON.stringify(change(now)) });
    },
    onSuccess: (next) => {
      client.setQueryData<Kinds[K]>(workKeys.one(kind, name), (old) => (old ? newest(old, next) : next));
      void client.invalidateQueries({ queryKey: workKeys.lists(kind) });
    },
  });
}

export function useDelete(kind: Plural, name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => read<Work>(at(kind, name), { method: "DELETE" }),
    onSuccess: () => client.invalidateQueries({ queryKey: workKeys.lists(kind) }),
  });
}

/** Makes one; with dryRun it is only checked. */
export function useMake<K extends Plural>(kind: K) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async ({ manifest, project }: { manifest: object; project: string }) =>
      read<Kinds[K]>(`${kind}?${new URLSearchParams(project ? { project } : {})}`, {
        method: "POST",
        headers: json,
        body: JSON.stringify(manifest),
      }),
    onSuccess: () => client.invalidateQueries({ queryKey: workKeys.lists(kind) }),
  });
}

/** What a training of this person may run inside of in a project: environments, in whatever state, and running tasks of one replica. */
export function useHosts(project: string, me: string) {
  return useQuery({
    queryKey: [...workKeys.lists("dev-environments"), "hosts", project, me],
    enabled: me !== "", // else nobody knows whose they are
    refetchInterval: 10_000,
    queryFn: async () => {
      const query = new URLSearchParams({ limit: "500" });
      if (project) query.set("project", project);
      const [envs, tasks] = await Promise.all([
        read<{ items: Environment[] | null }>(`dev-environments?${query}`),
        read<{ items: Task[] | null }>(`training-tasks?${query}&phase=Running`),
      ]);
      const lend = (tasks.items ?? []).filter(
        ({ spec }) => spec.roles?.length === 1 && (spec.roles[0]?.replicas ?? 1) === 1 && !spec.inside?.length,
      );
      return [...(envs.items ?? []).map((e) => ofEnvironment(e, me)), ...lend.map(ofTask)];
    },
  });
}
