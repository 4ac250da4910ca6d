// Ways into environments: pages of their programs, and SSH.
import { ask, type Schemas } from "./client";

async function read<T>(path: string, init?: RequestInit): Promise<T> {
  const response = await ask(`/api/v1/${path}`, init);
  const body: { data: T } = await response.json();
  return body.data;
}

const ports = (name: string) => `dev-environments/${encodeURIComponent(name)}/ports`;

export const readPorts = async (name: string) =>
  (await read<{ items: Schemas["Address"][] | null }>(ports(name))).items ?? [];

/** An address that lets this browser in, once. */
export const openPort = async (name: string, port: number) =>
  (await read<Schemas["Entry"]>(`${ports(name)}/${port}/open`, { method: "POST" })).url;

export const readSSH = () => read<Schemas["SshInfo"]>("ssh");
