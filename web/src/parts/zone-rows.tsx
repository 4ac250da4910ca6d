import { Button, CloseButton, Group, Input, NumberInput, Select, Stack, TextInput } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { useZones } from "../api/queries";
import { title } from "../format";
import type { ZoneRow } from "../workform";
import { withOwn } from "./create-fields";

const roles = ["primary", "backup"] as const;

/** Where the replicas of a service stand, and how requests are shared among zones. */
export function ZoneRows({
  value,
  change,
  at,
}: {
  value: readonly ZoneRow[];
  change: (rows: ZoneRow[]) => void;
  at: Record<string, string>;
}) {
  const { t } = useTranslation();
  const zones = useZones();
  const known = (zones.data?.items ?? []).map((z) => ({ value: z.metadata.name ?? "", label: title(z) }));
  const free = known.filter((z) => !value.some((row) => row.zone === z.value));
  const edit = (i: number, patch: Partial<ZoneRow>) =>
    change(value.map((row, n) => (n === i ? { ...row, ...patch } : row)));
  const number = (i: number, key: "replicas" | "weight") => ({
    value: value[i]?.[key] ?? "",
    onChange: (v: string | number) => edit(i, { [key]: typeof v === "number" ? v : "" }),
    error: Boolean(at[`zones.${i}.${key}`]),
    min: 1,
    clampBehavior: "none" as const,
    allowDecimal: false,
    allowNegative: false,
    w: 96,
  });
  return (
    <Input.Wrapper label={t("svc.zones")} description={t("svc.zonesHint")} error={at.zones} labelElement="div">
      <Stack gap={6} mt={6}>
        {value.map((row, i) => {
          const faults = Object.keys(at).filter((k) => k === `zones.${i}` || k.startsWith(`zones.${i}.`));
          return (
            <Stack
              // biome-ignore lint/suspicious/noArrayIndexKey: a row is its place
              key={i}
              gap={2}
            >
              <Group gap="xs" align="flex-end">
                <Select
                  label={t("spread.zone")}
                  data={withOwn(
                    known.filter((z) => z.value === row.zone || free.includes(z)),
                    row.zone,
                  )}
                  value={row.zone || null}
                  onChange={(v) => edit(i, { zone: v ?? "" })}
                  error={Boolean(at[`zones.${i}.zone`])}
                  searchable={known.length > 10}
                  flex={2}
                  miw={140}
                />
                <NumberInput label={t("create.replicas")} placeholder="1" {...number(i, "replicas")} />
                <NumberInput
                  label={t("svc.zoneWeight")}
                  placeholder={String(row.replicas || 1)}
                  {...number(i, "weight")}
                />
                <Select
                  label={t("svc.zoneRole")}
                  data={roles.map((r) => ({ value: r, label: t(`svc.zoneRole.${r}`) }))}
                  value={row.role}
                  onChange={(v) => edit(i, { role: roles.find((r) => r === v) ?? "primary" })}
                  error={Boolean(at[`zones.${i}.role`])}
                  allowDeselect={false}
                  w={120}
                />
                <TextInput
                  label={t("svc.zoneServes")}
                  placeholder={t("svc.zoneServesNone")}
                  value={row.serves}
                  onChange={(e) => edit(i, { serves: e.currentTarget.value })}
                  error={Boolean(at[`zones.${i}.serves`])}
                  maxLength={1024}
                  spellCheck={false}
                  flex={2}
                  miw={140}
                />
                <CloseButton
                  aria-label={t("svc.zoneRemove", { n: i + 1 })}
                  onClick={() => change(value.filter((_, n) => n !== i))}
                  mb={4}
                />
              </Group>
              {faults.map((k) => (
                <Input.Error key={k}>{at[k]}</Input.Error>
              ))}
            </Stack>
          );
        })}
        <Group>
          <Button
            size="compact-sm"
            variant="default"
            onClick={() =>
              change([...value, { zone: free[0]?.value ?? "", replicas: "", weight: "", role: "primary", serves: "" }])
            }
            disabled={value.length >= 32}
          >
            {t("svc.zoneAdd")}
          </Button>
        </Group>
      </Stack>
    </Input.Wrapper>
  );
}
