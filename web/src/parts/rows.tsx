import { Button, CloseButton, Group, Input, Select, Stack, TextInput } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { useSecrets } from "../api/queries";
import { type Param, type SecretUse, scalarOf } from "../draft";

/**
 * Rows being written. The manifest is the truth, but it cannot hold a row without a name or a half-typed
 * number: those live here until the manifest says something else than what was last written into it.
 */
function useRows<T>(value: readonly T[], change: (rows: T[]) => void, essence: (rows: readonly T[]) => string) {
  const [rows, setRows] = useState<readonly T[]>(value);
  const written = useRef(essence(value));
  const said = essence(value);
  useEffect(() => {
    if (said === written.current) return;
    written.current = said;
    setRows(value);
  }, [said, value]);
  function put(next: readonly T[]) {
    setRows(next);
    written.current = essence(next);
    change([...next]);
  }
  return {
    rows,
    add: (row: T) => put([...rows, row]),
    edit: (at: number, patch: Partial<T>) => put(rows.map((r, i) => (i === at ? { ...r, ...patch } : r))),
    drop: (at: number) => put(rows.filter((_, i) => i !== at)),
  };
}

interface RowsOf<T> {
  value: readonly T[];
  change: (rows: T[]) => void;
  disabled: boolean;
  /** What is wrong with a row, by its place. */
  faults: Record<string, string>;
  error?: string;
}

/** Rows as a manifest holds them: one of a name, none without both. */
export function paramEssence(rows: readonly Param[]): string {
  const whole = rows.filter((r) => r.name !== "" || r.value !== "");
  return JSON.stringify([...new Map(whole.map((r) => [r.name, String(scalarOf(r.value))]))]);
}

/** Names and values that the processes get as FERMI_HP_… */
export function Params({ value, change, disabled, faults, error }: RowsOf<Param>) {
  const { t } = useTranslation();
  const { rows, add, edit, drop } = useRows<Param>(
    value,
    (next) => change(next.filter((r) => r.name !== "" || r.value !== "")),
    paramEssence,
  );
  const faultOf = (row: Param, i: number) => {
    if (row.name !== "" && rows.findIndex((r) => r.name === row.name) < i) return t("create.paramTwice");
    const at = value.find((v) => v.name === row.name)?.at;
    return at && faults[at];
  };
  return (
    <Input.Wrapper label={t("create.params")} description={t("create.paramsHint")} error={error} labelElement="div">
      <Stack gap={6} mt={6}>
        {rows.map((row, i) => {
          const fault = faultOf(row, i);
          return (
            <Stack
              // biome-ignore lint/suspicious/noArrayIndexKey: a row is its place
              key={i}
              gap={2}
            >
              <Group gap="xs" wrap="nowrap">
                <TextInput
                  aria-label={t("create.paramName", { n: i + 1 })}
                  placeholder="lr"
                  value={row.name}
                  onChange={(e) => edit(i, { name: e.currentTarget.value })}
                  error={Boolean(fault)}
                  disabled={disabled}
                  maxLength={64}
                  spellCheck={false}
                  flex={1}
                />
                <TextInput
                  aria-label={t("create.paramValue", { n: i + 1 })}
                  placeholder="0.001"
                  value={row.value}
                  onChange={(e) => edit(i, { value: e.currentTarget.value })}
                  disabled={disabled}
                  maxLength={4096}
                  spellCheck={false}
                  flex={1}
                />
                <CloseButton
                  aria-label={t("create.removeRow", { n: i + 1 })}
                  onClick={() => drop(i)}
                  disabled={disabled}
                />
              </Group>
              {fault && <Input.Error>{fault}</Input.Error>}
            </Stack>
          );
        })}
        <Group>
          <Button size="compact-sm" variant="default" onClick={() => add({ name: "", value: "" })} disabled={disabled}>
            {t("create.paramAdd")}
          </Button>
        </Group>
      </Stack>
    </Input.Wrapper>
  );
}

/** Variables first, as the manifest has them. */
export function secretEssence(rows: readonly SecretUse[]): string {
  const of = (as: SecretUse["as"]) => rows.filter((r) => r.as === as);
  return JSON.stringify([...of("variable"), ...of("file")].map((r) => [r.as, r.name, r.secret, r.key]));
}

/** Values of the project's secrets, as variables or files of the processes. */
export function Secrets({ project, value, change, disabled, faults, error }: RowsOf<SecretUse> & { project: string }) {
  const { t } = useTranslation();
  const secrets = useSecrets(project);
  const { rows, add, edit, drop } = useRows<SecretUse>(value, change, secretEssence);
  const known = secrets.data?.items ?? [];
  const names = known.map((s) => s.metadata.name ?? "");
  const keysOf = (name: string) => known.find((s) => s.metadata.name === name)?.status?.keys ?? [];
  const withOwn = (list: readonly string[], own: string) =>
    own !== "" && !list.includes(own) ? [...list, own] : [...list];
  const faultOf = (row: SecretUse) => {
    const at = value.find((v) => v.as === row.as && v.name === row.name && v.secret === row.secret)?.at;
    return at && faults[at];
  };
  const none = secrets.data !== undefined && names.length === 0;
  return (
    <Input.Wrapper
      label={t("create.secrets")}
      description={none ? t("create.secretsNone") : t("create.secretsHint")}
      error={error}
      labelElement="div"
    >
      <Stack gap={6} mt={6}>
        {rows.map((row, i) => {
          const fault = faultOf(row);
          return (
            <Stack
              // biome-ignore lint/suspicious/noArrayIndexKey: a row is its place
              key={i}
              gap={2}
            >
              <Group gap="xs" wrap="nowrap" align="flex-start">
                <Group gap="xs" flex={1} grow preventGrowOverflow={false}>
                  <Select
                    aria-label={t("create.secretOf", { n: i + 1 })}
                    placeholder={t("create.secret")}
                    data={withOwn(names, row.secret)}
                    value={row.secret || null}
                    onChange={(v) => {
                      const keys = keysOf(v ?? "");
                      edit(i, { secret: v ?? "", key: keys.length === 1 ? (keys[0] ?? "") : "" });
                    }}
                    error={Boolean(fault)}
                    disabled={disabled}
                    miw={110}
                  />
                  <Select
                    aria-label={t("create.secretKey", { n: i + 1 })}
                    placeholder={t("create.key")}
                    data={withOwn(keysOf(row.secret), row.key)}
                    value={row.key || null}
                    onChange={(v) => edit(i, { key: v ?? "" })}
                    disabled={disabled}
                    miw={90}
                  />
                  <Select
                    aria-label={t("create.secretAs", { n: i + 1 })}
                    data={[
                      { value: "variable", label: t("create.asVariable") },
                      { value: "file", label: t("create.asFile") },
                    ]}
                    value={row.as}
                    onChange={(v) => edit(i, { as: v === "file" ? "file" : "variable" })}
                    allowDeselect={false}
                    disabled={disabled}
                    miw={110}
                  />
                  <TextInput
                    aria-label={t("create.secretName", { n: i + 1 })}
                    placeholder={row.as === "file" ? "key.pem" : "HF_TOKEN"}
                    value={row.name}
                    onChange={(e) => edit(i, { name: e.currentTarget.value })}
                    disabled={disabled}
                    maxLength={128}
                    spellCheck={false}
                    miw={110}
                  />
                </Group>
                <CloseButton
                  aria-label={t("create.removeSecret", { n: i + 1 })}
                  onClick={() => drop(i)}
                  disabled={disabled}
                />
              </Group>
              {fault && <Input.Error>{fault}</Input.Error>}
            </Stack>
          );
        })}
        {!none && (
          <Group>
            <Button
              size="compact-sm"
              variant="default"
              onClick={() => add({ as: "variable", name: "", secret: "", key: "" })}
              disabled={disabled}
            >
              {t("create.secretAdd")}
            </Button>
          </Group>
        )}
      </Stack>
    </Input.Wrapper>
  );
}
