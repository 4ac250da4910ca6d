// What operators do to nodes, their devices, and zones.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, ask, dataOf, type Node, Refused, type Schemas, type Zone } from "./client";
import { useStream } from "./live";
import { keys, useSoon } from "./queries";

export type Health = Schemas["DeviceHealth"];
export type Outage = Schemas["Outage"];

export const nodeKeys = {
  one: (name: string) => ["node", name] as const,
  drain: (name: string) => ["node", name, "drain"] as const,
  outage: (name: string) => ["zones", name, "outage"] as const,
};

/** The newer of two: what the stream told may be ahead of the answer to one's own call. */
export function newest(old: Node | undefined, next: Node): Node {
  return old && (old.metadata.revision ?? 0) > (next.metadata.revision ?? 0) ? old : next;
}

/** A node, live. */
export function useNode(name: string) {
  const client = useQueryClient();
  const query = useQuery({
    queryKey: nodeKeys.one(name),
    queryFn: () => dataOf(api.GET("/api/v1/nodes/{name}", { params: { path: { name } } })),
  });
  const again = useSoon(() => void client.invalidateQueries({ queryKey: nodeKeys.one(name), exact: true }));
  const live = useStream(`/api/v1/watch/nodes?name=${encodeURIComponent(name)}`, {
    enabled: query.data !== undefined,
    onGap: again,
    onEvent: (event) => {
      if (event.name === "added" || event.name === "modified") {
        const next: Node = JSON.parse(event.data);
        client.setQueryData<Node>(nodeKeys.one(name), (old) => newest(old, next));
      }
    },
  });
  return { ...query, live };
}

export type NodeVerb = "cordon" | "uncordon" | "drain" | "test" | "lost";

/** Does something to a node, or to one of its devices. */
export function useNodeVerb(name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async ({ verb, device }: { verb: NodeVerb; device?: number }) => {
      const of = device === undefined ? "" : `?device=${device}`;
      const response = await ask(`/api/v1/nodes/${encodeURIComponent(name)}/${verb}${of}`, { method: "POST" });
      const body: { data: Node } = await response.json();
      return body.data;
    },
    onSuccess: (next) => client.setQueryData<Node>(nodeKeys.one(name), (old) => newest(old, next)),
  });
}

/** Has the agent of a machine that joined take the servers' program; what becomes of it is in the node's status. */
export function useUpgrade(name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => dataOf(api.POST("/api/v1/nodes/{name}/upgrade", { params: { path: { name } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: nodeKeys.one(name), exact: true }),
  });
}

/** A drill: the device is taken to have a fault. */
export function useFault(name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: { device: number; kind: string; heal: boolean }) =>
      dataOf(api.POST("/api/v1/nodes/{name}/fault", { params: { path: { name } }, body })),
    onSuccess: (next) => client.setQueryData<Node>(nodeKeys.one(name), (old) => newest(old, next)),
  });
}

/** Where the tasks of a node would go if they had to leave it now. */
export function useDrainPreview(name: string, enabled: boolean) {
  return useQuery({
    queryKey: nodeKeys.drain(name),
    enabled,
    staleTime: 0,
    queryFn: () => dataOf(api.GET("/api/v1/nodes/{name}/drain", { params: { path: { name } } })),
  });
}

/** Where the tasks of a zone would go if it were lost now. */
export function useOutagePreview(name: string, enabled: boolean) {
  return useQuery({
    queryKey: nodeKeys.outage(name),
    enabled,
    staleTime: 0,
    queryFn: () => dataOf(api.GET("/api/v1/zones/{name}/outage", { params: { path: { name } } })),
  });
}

const tries = 5;

/** Takes a zone out, or lets it take work again; somebody else's change in between is read again. */
export function useOutage(name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (out: boolean): Promise<Zone> => {
      for (let i = 0; ; i++) {
        const zone = await dataOf(api.GET("/api/v1/zones/{name}", { params: { path: { name } } }));
        if ((zone.spec.outage ?? false) === out) return zone;
        const body = { ...zone, spec: { ...zone.spec, outage: out } };
        try {
          return await dataOf(api.PUT("/api/v1/zones/{name}", { params: { path: { name } }, body }));
        } catch (error) {
          if (!(error instanceof Refused) || error.status !== 409 || i >= tries) throw error;
        }
      }
    },
    onSettled: () => client.invalidateQueries({ queryKey: keys.zones }),
  });
}
