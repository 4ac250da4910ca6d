// What is one's own: keys for SSH, tokens for programs; and the secrets of one's projects.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, ask, dataOf, type Schemas } from "./client";
import { keys } from "./queries";

export type SshKey = Schemas["Key"];
export type Secret = Schemas["Secret"];

const mine = (user: string) => ["users", user] as const;

/** The public keys that open one's environments over SSH. */
export function useSshKeys(user: string) {
  return useQuery({
    queryKey: mine(user),
    queryFn: async () => {
      const own = await dataOf(api.GET("/api/v1/users/{name}", { params: { path: { name: user } } }));
      return own.status?.sshKeys ?? [];
    },
  });
}

export function useAddSshKey(user: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas["KeyBody"]) =>
      dataOf(api.POST("/api/v1/users/{name}/keys", { params: { path: { name: user } }, body })),
    onSuccess: () => client.invalidateQueries({ queryKey: mine(user) }),
  });
}

export function useRemoveSshKey(user: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (key: string) =>
      dataOf(api.DELETE("/api/v1/users/{name}/keys/{key}", { params: { path: { name: user, key } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: mine(user) }),
  });
}

const tokens = ["tokens", "own"] as const;
export type Scope = "read" | "tasks" | "admin";

/** One's tokens for programs: no sessions, none that replicas were given, no keys of services. */
export function useTokens(user: string) {
  return useQuery({
    queryKey: [...tokens, user],
    queryFn: async () => {
      const page = await dataOf(api.GET("/api/v1/tokens", { params: { query: { limit: 500, sort: "-createdAt" } } }));
      return (page.items ?? []).filter(
        ({ spec }) => spec?.user === user && !spec.use && !spec.task && String(spec.scope) !== "inference",
      );
    },
  });
}

/** Makes a token; its secret is shown this once. */
export function useMakeToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async ({ name, days, scope }: { name: string; days: number; scope: Scope }) => {
      const expiresAt = new Date(Date.now() + days * 86_400_000).toISOString();
      const response = await ask("/api/v1/tokens", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ metadata: { displayName: name }, spec: { scope, expiresAt } }),
      });
      const body: { data: { secret: string } } = await response.json();
      return body.data.secret;
    },
    onSuccess: () => client.invalidateQueries({ queryKey: tokens }),
  });
}

export function useRevokeToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (name: string) => dataOf(api.DELETE("/api/v1/tokens/{name}", { params: { path: { name } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: tokens }),
  });
}

/** A secret as the form says it: only the values that were typed. */
export interface SecretWish {
  project: string;
  name: string;
  type: string;
  data: Record<string, string>;
  old?: Secret;
}

/** Makes a secret, or changes the values that were typed. */
export function useSetSecret() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ project, name, type, data, old }: SecretWish) => {
      const query = { project };
      if (old === undefined) {
        return dataOf(
          api.POST("/api/v1/secrets", {
            params: { query },
            body: { metadata: { name }, spec: { type, data } } as Secret,
          }),
        );
      }
      const body = { metadata: old.metadata, spec: { ...old.spec, data } };
      return dataOf(api.PUT("/api/v1/secrets/{name}", { params: { path: { name }, query }, body }));
    },
    onSuccess: (_, { project }) => client.invalidateQueries({ queryKey: keys.secrets(project) }),
  });
}

export function useDropSecret(project: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (name: string) =>
      dataOf(api.DELETE("/api/v1/secrets/{name}", { params: { path: { name }, query: { project } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: keys.secrets(project) }),
  });
}
