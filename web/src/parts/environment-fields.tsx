// What an environment is made with and changed by: the same fields in both.
import { NumberInput, SimpleGrid, Stack, Switch, TextInput } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { EnvironmentForm } from "../workform";
import { ResourceFields } from "./work-fields";

/** An environment has at most so many. */
const maxDevices = 8;

interface Fields {
  form: EnvironmentForm;
  change: (patch: Partial<EnvironmentForm>) => void;
  at: Record<string, string>;
}

/** Devices, cores and memory. */
export function MachineFields({ form, change, at }: Fields) {
  return (
    <ResourceFields form={form} change={change} at={at} zones={form.zone === "" ? [] : [form.zone]} most={maxDevices} />
  );
}

export function StorageField({ form, change, at }: Fields) {
  const { t } = useTranslation();
  return (
    <NumberInput
      label={t("env.storage")}
      description={t("env.storageHint")}
      placeholder={t("env.storageNone")}
      value={form.storage}
      onChange={(v) => change({ storage: typeof v === "number" ? v : "" })}
      error={at.storage}
      min={1}
      clampBehavior="none"
      decimalScale={3}
      allowNegative={false}
    />
  );
}

/** What of it has an address in browsers. */
export function PageFields({ form, change, at }: Fields) {
  const { t } = useTranslation();
  return (
    <Stack gap="sm">
      <Switch
        label={t("env.vscode")}
        description={t("env.vscodeHint")}
        checked={form.vscode}
        onChange={(e) => change({ vscode: e.currentTarget.checked })}
      />
      <TextInput
        label={t("env.ports")}
        description={t("env.portsHint")}
        placeholder="6006, 8080"
        value={form.ports}
        onChange={(e) => change({ ports: e.currentTarget.value })}
        error={at.ports}
        maw={420}
      />
    </Stack>
  );
}

/** When it starts and stops by itself. */
export function ClockFields({ form, change, at }: Fields) {
  const { t } = useTranslation();
  return (
    <>
      <TextInput
        label={t("env.idle")}
        description={t("env.idleHint")}
        placeholder="2h"
        value={form.idle}
        onChange={(e) => change({ idle: e.currentTarget.value })}
        error={at.idle}
        maw={320}
      />
      <SimpleGrid cols={{ base: 1, xs: 3 }}>
        <TextInput
          label={t("env.startsAt")}
          description={t("env.cronHint")}
          placeholder="0 9 * * 1-5"
          value={form.starts}
          onChange={(e) => change({ starts: e.currentTarget.value })}
          error={at.starts}
        />
        <TextInput
          label={t("env.stopsAt")}
          description={t("env.cronHint")}
          placeholder="0 19 * * *"
          value={form.stops}
          onChange={(e) => change({ stops: e.currentTarget.value })}
          error={at.stops}
        />
        <TextInput
          label={t("env.timeZone")}
          description={t("env.timeZoneHint")}
          placeholder="UTC"
          value={form.timeZone}
          onChange={(e) => change({ timeZone: e.currentTarget.value })}
          error={at.timeZone}
        />
      </SimpleGrid>
    </>
  );
}

export function ShareField({ form, change }: Omit<Fields, "at">) {
  const { t } = useTranslation();
  return (
    <Switch
      label={t("env.share")}
      description={t("env.shareHint")}
      checked={form.shared}
      onChange={(e) => change({ shared: e.currentTarget.checked })}
    />
  );
}
