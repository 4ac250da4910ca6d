// What the form of a secret asks, by type.
export type SecretType = "opaque" | "git" | "registry" | "s3";
export const secretTypes: readonly SecretType[] = ["opaque", "git", "registry", "s3"];

interface Field {
  key: string;
  needed?: boolean;
  /** It may be seen: where and who, not the way in. */
  open?: boolean;
  /** It has several lines. */
  long?: boolean;
}

/** The keys of the types that have fixed ones. */
export const secretFields: Record<Exclude<SecretType, "opaque">, readonly Field[]> = {
  git: [
    { key: "username", open: true },
    { key: "password" },
    { key: "ssh-privatekey", long: true },
    { key: "known_hosts", open: true, long: true },
  ],
  registry: [
    { key: "server", needed: true, open: true },
    { key: "username", needed: true, open: true },
    { key: "password", needed: true },
  ],
  s3: [
    { key: "accessKeyID", needed: true, open: true },
    { key: "secretAccessKey", needed: true },
    { key: "sessionToken" },
    { key: "endpoint", open: true },
    { key: "region", open: true },
  ],
};

/** The values that were typed; those of a private key end with a line's end, without which ssh reads none. */
export function typed(values: Readonly<Record<string, string>>): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [key, value] of Object.entries(values)) {
    if (value === "") continue;
    out[key] = key === "ssh-privatekey" && !value.endsWith("\n") ? `${value}\n` : value;
  }
  return out;
}

/** Keys that are needed and were neither typed nor there before. */
export function missing(type: SecretType, values: Readonly<Record<string, string>>, had: readonly string[]): string[] {
  if (type === "opaque") return [];
  return secretFields[type]
    .filter((f) => f.needed && (values[f.key] ?? "") === "" && !had.includes(f.key))
    .map((f) => f.key);
}
