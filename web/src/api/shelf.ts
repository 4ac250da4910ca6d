// Datasets and models, and the images of the catalogue with what is done with images.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { lookLeaves, lookTask } from "../shelf";
import { ask, type Schemas } from "./client";

export type Dataset = Schemas["Dataset"];
export type Model = Schemas["Model"];
export type Version = Schemas["AssetVersion"];
export type Lineage = Schemas["LineageVersion"];
/** What has versions. */
export type Shelf = "datasets" | "models";
export type Image = Schemas["Image"];
export type ImageJob = Schemas["ImageJob"];

async function read<T>(path: string, init?: RequestInit): Promise<T> {
  const response = await ask(`/api/v1/${path}`, init);
  const body: { data: T } = await response.json();
  return body.data;
}

/** Lists that a person looks through at once. */
const most = 500;
const all = async <T>(path: string) => (await read<{ items: T[] | null }>(path)).items ?? [];

export function useDatasets() {
  return useQuery({
    queryKey: ["datasets"],
    refetchInterval: 15_000,
    queryFn: () => all<Dataset>(`datasets?sort=name&limit=${most}`),
  });
}

export function useModels() {
  return useQuery({
    queryKey: ["models"],
    refetchInterval: 15_000,
    queryFn: () => all<Model>(`models?sort=name&limit=${most}`),
  });
}

const of = (kind: Shelf, name: string) => `${kind}/${encodeURIComponent(name)}`;

export function useDataset(name: string) {
  return useQuery({ queryKey: ["datasets", name], queryFn: () => read<Dataset>(of("datasets", name)) });
}

export function useModel(name: string) {
  return useQuery({ queryKey: ["models", name], queryFn: () => read<Model>(of("models", name)) });
}

export function useVersions(kind: Shelf, name: string) {
  return useQuery({
    queryKey: [kind, name, "versions"],
    queryFn: () => all<Version>(`${of(kind, name)}/versions`),
  });
}

/** What each version comes from and goes into. */
export function useLineage(kind: Shelf, name: string) {
  return useQuery({
    queryKey: [kind, name, "lineage"],
    refetchInterval: 15_000,
    queryFn: async () => (await read<Schemas["Lineage"]>(`${of(kind, name)}/lineage`)).versions ?? [],
  });
}

export function useFolder(kind: Shelf, name: string, version: number, path: string) {
  return useQuery({
    queryKey: [kind, name, version, "files", path],
    queryFn: () =>
      read<Schemas["AssetFolder"]>(
        `${of(kind, name)}/versions/${version}/files?${new URLSearchParams({ path, limit: "1000" })}`,
      ),
  });
}

export function usePreview(kind: Shelf, name: string, version: number, path: string) {
  return useQuery({
    queryKey: [kind, name, version, "preview", path],
    queryFn: () =>
      read<Schemas["AssetPreview"]>(`${of(kind, name)}/versions/${version}/preview?${new URLSearchParams({ path })}`),
  });
}

/** Has a task look at a file of a version that lies elsewhere, and brings what it saw; failed is why it saw nothing. */
export function useLook(name: string, version: Version, path: string) {
  const begin = useMutation({
    mutationFn: () =>
      read<Schemas["Submitted"]>("training-tasks", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(lookTask(name, version, path)),
      }),
  });
  const task = begin.data?.taskId;
  const seen = useQuery({
    queryKey: ["look", task],
    enabled: !!task,
    staleTime: Number.POSITIVE_INFINITY,
    refetchInterval: (q) => (q.state.data?.over ? false : 1000),
    queryFn: async (): Promise<Looked> => {
      const at = `training-tasks/${encodeURIComponent(task ?? "")}`;
      const { status } = await read<Schemas["TrainingTask"]>(at);
      if (status?.phase === "Failed" || status?.phase === "Stopped") return { over: true, failed: status.message };
      if (status?.phase !== "Completed") return { over: false, waits: status?.message };
      const left = await all<Schemas["Output"]>(`${at}/outputs?limit=100`);
      const file = left.find((o) => o.path?.endsWith(`/${lookLeaves}`));
      if (!file?.path) return { over: true };
      const parts = file.path.split("/").map(encodeURIComponent).join("/");
      const response = await ask(`/api/v1/${at}/outputs/${parts}`);
      return { over: true, preview: await response.json() };
    },
  });
  return { begin, seen, task };
}

interface Looked {
  over: boolean;
  preview?: Schemas["AssetPreview"];
  failed?: { en?: string; zh?: string };
  waits?: { en?: string; zh?: string };
}

export function useImages() {
  return useQuery({ queryKey: ["images"], queryFn: () => all<Image>(`images?sort=name&limit=${most}`) });
}

export function useImageJobs() {
  return useQuery({
    queryKey: ["image-jobs"],
    refetchInterval: 3000,
    queryFn: () => all<ImageJob>("image-jobs?sort=-createdAt&limit=50"),
  });
}

export function useStopJob() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => read<ImageJob>(`image-jobs/${encodeURIComponent(id)}/stop`, { method: "POST" }),
    onSuccess: () => client.invalidateQueries({ queryKey: ["image-jobs"] }),
  });
}

/** Has a task read a source. */
export function useImport() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (task: object) =>
      read<Schemas["Submitted"]>("training-tasks", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(task),
      }),
    onSuccess: () => client.invalidateQueries({ queryKey: ["datasets"] }),
  });
}

/** Makes a version of a task's checkpoint, and the model where there is none. */
export function useModelOf(task: string, project: string) {
  const client = useQueryClient();
  const query = new URLSearchParams({ project }).toString();
  const post = <T>(path: string, body: object) =>
    read<T>(`${path}?${query}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  return useMutation({
    mutationFn: async ({ name, step }: { name: string; step: number }) => {
      const there = (await all<Model>(`models?${query}&limit=${most}`)).some((m) => m.metadata.name === name);
      if (!there) await post<Model>("models", { metadata: { name } });
      return post<Version>(`${of("models", name)}/versions`, { checkpoint: { task, step } });
    },
    onSuccess: () => client.invalidateQueries({ queryKey: ["models"] }),
  });
}
