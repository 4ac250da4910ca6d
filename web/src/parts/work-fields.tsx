import {
  Alert,
  Button,
  Group,
  NumberInput,
  Select,
  SimpleGrid,
  Stack,
  Text,
  Textarea,
  TextInput,
  Title,
} from "@mantine/core";
import { type FormEvent, type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { Refused, type Schemas } from "../api/client";
import { useNodes, useProjects, useWhoami, useZones } from "../api/queries";
import { title } from "../format";
import { type Placed, placeAll, type WorkForm, without } from "../workform";
import { nominal, SpotField, withOwn } from "./create-fields";
import { Secrets } from "./rows";
import { Failure, View } from "./states";
import { Variables } from "./variables";

export type Project = Schemas["Project"];

/** The projects one may use: all for who looks after the cluster, one's own for everybody else. */
export function WithProjects({ children }: { children: (projects: readonly Project[]) => ReactNode }) {
  const who = useWhoami();
  const all = useProjects();
  const read = {
    data: who.data && all.data ? { who: who.data, all: all.data.items } : undefined,
    error: who.error ?? all.error,
    refetch: () => Promise.all([who.refetch(), all.refetch()]),
  };
  return (
    <View read={read} rows={10}>
      {(d) => children(d.who.seesAll ? d.all : d.all.filter((p) => d.who.projects?.includes(p.metadata.name ?? "")))}
    </View>
  );
}

/** A form, and what was refused of what it sent, as far as that was not changed since. */
export function useWorkForm<F extends WorkForm>(first: F, hidden: (form: F) => readonly string[]) {
  const [form, setForm] = useState(first);
  const [faults, setFaults] = useState<Placed>({ at: {}, rest: [] });
  function change(patch: Partial<F>) {
    setForm((old) => ({ ...old, ...patch }));
    setFaults((old) => without(old, Object.keys(patch)));
  }
  function refused(error: Error) {
    setFaults(placeAll(error instanceof Refused ? error.fields : [], form, hidden(form)));
  }
  return { form, change, faults, refused, clear: () => setFaults({ at: {}, rest: [] }), setFaults };
}

interface Sent {
  error: Error | null;
  faults: Placed;
  pending: boolean;
  send: () => void;
}

/** A form that is sent: what is wrong with it as a whole stands below its head, and its first marked field has the focus. */
export function WorkFormFrame(props: Sent & { head?: ReactNode; refusal: string; children: ReactNode }) {
  const { error, faults, pending } = props;
  const { t } = useTranslation();
  const frame = useRef<HTMLFormElement>(null);
  const marked = Object.keys(faults.at).length;
  // The first field that needs a hand is where the hand goes.
  // biome-ignore lint/correctness/useExhaustiveDependencies: each answer moves the focus once
  useEffect(() => {
    if (!pending && error && marked > 0) {
      frame.current?.querySelector<HTMLElement>('[aria-invalid="true"], [data-fault]')?.focus();
    }
  }, [error, pending]);
  function onSubmit(event: FormEvent) {
    event.preventDefault();
    props.send();
  }
  const placed = error instanceof Refused && error.fields.length > 0 && faults.rest.length === 0;
  return (
    <form onSubmit={onSubmit} ref={frame} noValidate>
      <Stack maw={920}>
        {props.head}
        {!pending && error && !placed && <Failure error={error} fields={faults.rest} title={props.refusal} />}
        {!pending && marked > 0 && (
          <Alert color="red" variant="light" role="alert">
            {t("create.marked", { count: marked })}
          </Alert>
        )}
        {props.children}
      </Stack>
    </form>
  );
}

/** A page that is a form, with the button that sends it. */
export function FormPage(
  props: Sent & { title: string; submitWord: string; projects: readonly Project[]; children: ReactNode },
) {
  const { t } = useTranslation();
  const none = props.projects.length === 0;
  const head = (
    <>
      <Group justify="space-between">
        <Title order={1} size="h3">
          {props.title}
        </Title>
        <Button type="submit" loading={props.pending} disabled={none}>
          {props.submitWord}
        </Button>
      </Group>
      {none && (
        <Alert color="orange" variant="light" title={t("create.noProject")}>
          {t("work.noProjectHint")}
        </Alert>
      )}
    </>
  );
  return (
    <WorkFormFrame {...props} head={head} refusal={t("create.notSubmitted")}>
      {props.children}
    </WorkFormFrame>
  );
}

interface Fields {
  form: WorkForm;
  change: (patch: Partial<WorkForm>) => void;
  at: Record<string, string>;
}

export function NameFields({
  form,
  change,
  at,
  projects,
  hint,
}: Fields & { projects: readonly Project[]; hint: string }) {
  const { t } = useTranslation();
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }}>
      <TextInput
        label={t("create.displayName")}
        description={hint}
        value={form.displayName}
        onChange={(e) => change({ displayName: e.currentTarget.value })}
        error={at.displayName && (form.displayName.trim() === "" ? t("work.nameEmpty") : at.displayName)}
        maxLength={128}
        inputWrapperOrder={["label", "input", "description", "error"]}
      />
      <Select
        label={t("create.project")}
        data={projects.map((p) => ({ value: p.metadata.name ?? "", label: title(p) }))}
        value={form.project || null}
        onChange={(v) => v !== null && v !== form.project && change({ project: v, secrets: [] })}
        error={at.project}
        allowDeselect={false}
        searchable={projects.length > 10}
      />
    </SimpleGrid>
  );
}

const given = (v: string | number): number | "" => (typeof v === "number" ? v : "");

export function ResourceFields({ form, change, at, zones, most }: Fields & { zones: readonly string[]; most: number }) {
  const { t } = useTranslation();
  const nodes = useNodes();
  const all = useZones();
  const types = useMemo(
    () => [...new Set((nodes.data?.items ?? []).flatMap((n) => (n.spec.devices ?? []).map((d) => d.type)))].sort(),
    [nodes.data],
  );
  return (
    <Stack gap="sm">
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <NumberInput
          label={t("work.devices")}
          value={form.devices}
          onChange={(v) => change({ devices: given(v) })}
          error={at.devices}
          min={0}
          max={most}
          clampBehavior="none"
          allowDecimal={false}
          allowNegative={false}
        />
        <Select
          label={t("create.deviceType")}
          placeholder={t("create.anyType")}
          data={withOwn(
            types.map((type) => ({ value: type, label: type })),
            form.deviceType,
          )}
          value={form.deviceType || null}
          onChange={(v) => change({ deviceType: v ?? "" })}
          error={at.deviceType}
          disabled={form.devices === 0}
          clearable
        />
        <NumberInput
          label={t("work.cpu")}
          placeholder={t("create.default")}
          value={form.cpu}
          onChange={(v) => change({ cpu: given(v) })}
          error={at.cpu}
          min={1}
          clampBehavior="none"
          decimalScale={3}
          allowNegative={false}
        />
        <NumberInput
          label={t("work.memory")}
          placeholder={t("create.default")}
          value={form.memory}
          onChange={(v) => change({ memory: given(v) })}
          error={at.memory}
          min={1}
          clampBehavior="none"
          decimalScale={3}
          allowNegative={false}
        />
        <SpotField value={form.spot} change={(spot) => change({ spot })} error={at.spot} />
      </SimpleGrid>
      {nominal(all.data?.items ?? [], zones) && (
        <Alert color="gray" variant="light" p="xs" role="note">
          <Text size="sm">{t("create.nominal")}</Text>
        </Alert>
      )}
    </Stack>
  );
}

export function ImageField({ form, change, at }: Fields) {
  const { t } = useTranslation();
  return (
    <TextInput
      label={t("create.image")}
      description={t("create.imageHint")}
      placeholder="name:tag"
      value={form.image}
      onChange={(e) => change({ image: e.currentTarget.value })}
      error={at.image}
      maxLength={512}
      spellCheck={false}
    />
  );
}

export function CommandField({ form, change, at, hint, example }: Fields & { hint: string; example: string }) {
  const { t } = useTranslation();
  return (
    <Textarea
      label={t("create.command")}
      description={hint}
      placeholder={example}
      value={form.command}
      onChange={(e) => change({ command: e.currentTarget.value })}
      error={at.command}
      autosize
      minRows={2}
      maxRows={8}
      spellCheck={false}
      styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 13 } }}
    />
  );
}

export function ValueFields({ form, change, at }: Fields) {
  return (
    <Stack gap="sm">
      <Variables value={form.variables} change={(variables) => change({ variables })} faults={at} />
      <Secrets
        key={form.project}
        project={form.project}
        value={form.secrets.map((s, i) => ({ ...s, at: `secrets.${i}` }))}
        change={(secrets) => change({ secrets })}
        disabled={false}
        faults={at}
      />
    </Stack>
  );
}
