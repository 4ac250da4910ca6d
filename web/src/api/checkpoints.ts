import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, dataOf, type Task } from "./client";
import { insisting, keys, newer } from "./queries";

const one = (name: string) => ({ params: { path: { name } } });
const key = (name: string) => [...keys.task(name), "checkpoints"] as const;

/** They come with nobody's change of the task: asked for again and again while it is looked at. */
export function useCheckpoints(name: string) {
  return useQuery({
    queryKey: key(name),
    queryFn: async () => (await dataOf(api.GET("/api/v1/training-tasks/{name}/checkpoints", one(name)))).items ?? [],
    refetchInterval: 5000,
  });
}

export function usePin(name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: { step: number; unpin?: boolean }) =>
      dataOf(api.POST("/api/v1/training-tasks/{name}/pin", { ...one(name), body })),
    onSuccess: () => client.invalidateQueries({ queryKey: key(name) }),
  });
}

export function useVerify(name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: { step?: number }) =>
      dataOf(api.POST("/api/v1/training-tasks/{name}/verify", { ...one(name), body })),
    onSuccess: () => client.invalidateQueries({ queryKey: key(name) }),
  });
}

export function useRestore(name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ force, ...body }: { step: number; stop: boolean; force: boolean }) =>
      dataOf(api.POST("/api/v1/training-tasks/{name}/restore", { ...insisting(name, force), body })),
    onSuccess: (task) => client.setQueryData<Task>(keys.task(name), (old) => (old ? newer(old, task) : task)),
    onError: () => client.invalidateQueries({ queryKey: keys.task(name), exact: true }),
  });
}
