// Datasets, and the images of the catalogue with what is done with images.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { ask, type Schemas } from "./client";

export type Dataset = Schemas["Dataset"];
export type Version = Schemas["AssetVersion"];
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

const of = (name: string) => `datasets/${encodeURIComponent(name)}`;

export function useDataset(name: string) {
  return useQuery({ queryKey: ["dataset", name], queryFn: () => read<Dataset>(of(name)) });
}

export function useVersions(name: string) {
  return useQuery({
    queryKey: ["dataset", name, "versions"],
    queryFn: () => all<Version>(`${of(name)}/versions`),
  });
}

export function useFolder(name: string, version: number, path: string) {
  return useQuery({
    queryKey: ["dataset", name, version, "files", path],
    queryFn: () =>
      read<Schemas["AssetFolder"]>(
        `${of(name)}/versions/${version}/files?${new URLSearchParams({ path, limit: "1000" })}`,
      ),
  });
}

export function usePreview(name: string, version: number, path: string) {
  return useQuery({
    queryKey: ["dataset", name, version, "preview", path],
    queryFn: () =>
      read<Schemas["AssetPreview"]>(`${of(name)}/versions/${version}/preview?${new URLSearchParams({ path })}`),
  });
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
