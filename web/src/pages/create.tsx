import {
  Alert,
  Button,
  Group,
  Input,
  MultiSelect,
  NumberInput,
  Select,
  SimpleGrid,
  Stack,
  Text,
  Textarea,
  TextInput,
  Title,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { type FormEvent, lazy, Suspense, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { useNodes, useSubmit, useTaskOnce, useZones } from "../api/queries";
import { draftFrom, emptyDraft, type Form, toForm, withForm, within } from "../draft";
import { title } from "../format";
import { Inside } from "../parts/inside";
import { Failure, Panel, View } from "../parts/states";

const Recipe = lazy(() => import("../parts/recipe"));
const classes = ["inference", "training", "environment", "preemptible"] as const;

const route = getRouteApi("/create");

export function Create() {
  const { from, step } = route.useSearch();
  if (from === undefined || step === undefined) return <Editor draft={emptyDraft} />;
  return <FromCheckpoint key={`${from}@${step}`} from={from} step={step} />;
}

/** A copy of a task, to begin where that one was at a step. */
function FromCheckpoint({ from, step }: { from: string; step: number }) {
  const { t } = useTranslation();
  const read = useTaskOnce(from);
  return (
    <View read={read} rows={10}>
      {(task) => (
        <Editor draft={draftFrom(task, step, t("create.fromName", { name: title(task).slice(0, 100), step }))} />
      )}
    </View>
  );
}

function Editor({ draft }: { draft: string }) {
  const { t } = useTranslation();
  const [yaml, setYaml] = useState(draft);
  const form = useMemo(() => toForm(yaml), [yaml]);
  const submit = useSubmit();
  const [shown, recipe] = useDisclosure(false);
  const navigate = useNavigate();
  function send(dryRun: boolean) {
    submit.mutate(
      { yaml, dryRun },
      {
        onSuccess: (made) => {
          if (!dryRun) void navigate({ to: "/tasks/$name", params: { name: made.taskId } });
        },
      },
    );
  }
  function onSubmit(event: FormEvent) {
    event.preventDefault();
    send(false);
  }
  return (
    <form onSubmit={onSubmit}>
      <Stack>
        <Group justify="space-between">
          <Title order={1} size="h3">
            {t("create.title")}
          </Title>
          <Group gap="xs">
            <Button variant="default" onClick={recipe.open} disabled={!form}>
              {t("recipe.show")}
            </Button>
            <Button variant="default" onClick={() => send(true)} disabled={submit.isPending}>
              {t("create.check")}
            </Button>
            <Button type="submit" loading={submit.isPending}>
              {t("create.submit")}
            </Button>
          </Group>
        </Group>
        {shown && (
          <Suspense>
            <Recipe yaml={yaml} close={recipe.close} />
          </Suspense>
        )}
        {submit.error && <Failure error={submit.error} />}
        {submit.data?.dryRun && !submit.error && (
          <Alert color="green" variant="light" role="status">
            {t("create.checkOk")}
          </Alert>
        )}
        <SimpleGrid cols={{ base: 1, md: 2 }}>
          <Panel title={t("create.form")}>
            <Fields form={form} change={(patch) => setYaml((old) => withForm(old, patch))} />
          </Panel>
          <Panel title={t("create.yaml")}>
            <Textarea
              aria-label={t("create.yaml")}
              description={t("create.yamlHint")}
              value={yaml}
              onChange={(e) => setYaml(e.currentTarget.value)}
              error={form ? undefined : t("create.yamlBad")}
              autosize
              minRows={18}
              maxRows={32}
              spellCheck={false}
              styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 13 } }}
            />
          </Panel>
        </SimpleGrid>
      </Stack>
    </form>
  );
}

const blank: Form = {
  displayName: "",
  command: "",
  image: "",
  replicas: 1,
  deviceType: "",
  devices: 0,
  cpu: "",
  memory: "",
  priorityClass: "",
  zones: [],
  framework: "",
  inside: [],
  fromTask: "",
  fromStep: 0,
};

function Fields({ form, change }: { form: Form | undefined; change: (patch: Partial<Form>) => void }) {
  const { t } = useTranslation();
  const zones = useZones();
  const nodes = useNodes();
  const types = useMemo(
    () => [...new Set((nodes.data?.items ?? []).flatMap((n) => (n.spec.devices ?? []).map((d) => d.type)))].sort(),
    [nodes.data],
  );
  const f = form ?? blank;
  const disabled = form === undefined;
  const lent = disabled || f.inside.length > 0; // what it has is then that of others
  return (
    <Stack gap="sm">
      {disabled && <Text size="sm">{t("create.yamlBad")}</Text>}
      <TextInput
        label={t("create.displayName")}
        description={t("create.displayNameHint")}
        value={f.displayName}
        onChange={(e) => change({ displayName: e.currentTarget.value })}
        disabled={disabled}
        maxLength={128}
      />
      <Textarea
        label={t("create.command")}
        description={t("create.commandHint")}
        placeholder="fermi sample train"
        value={f.command}
        onChange={(e) => change({ command: e.currentTarget.value })}
        disabled={disabled}
        autosize
        minRows={2}
        maxRows={8}
        spellCheck={false}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 13 } }}
      />
      <TextInput
        label={t("create.image")}
        description={t("create.imageHint")}
        placeholder="name:tag"
        value={f.image}
        onChange={(e) => change({ image: e.currentTarget.value })}
        disabled={lent}
        maxLength={512}
        spellCheck={false}
      />
      {f.fromTask !== "" && (
        <Input.Wrapper label={t("create.from")} description={t("create.fromHint")} labelElement="div">
          <Group justify="space-between" wrap="nowrap" mt={4}>
            <Text size="sm" className="break">
              {f.fromTask} · {f.fromStep > 0 ? t("create.fromStep", { step: f.fromStep }) : t("create.fromNewest")}
            </Text>
            <Button size="compact-xs" variant="default" onClick={() => change({ fromTask: "", fromStep: 0 })}>
              {t("create.fromRemove")}
            </Button>
          </Group>
        </Input.Wrapper>
      )}
      <Inside names={f.inside} framework={f.framework} change={(names) => change(within(names))} disabled={disabled} />
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <NumberInput
          label={t("create.replicas")}
          value={f.replicas}
          onChange={(v) => typeof v === "number" && change({ replicas: v })}
          min={1}
          max={16384}
          allowDecimal={false}
          disabled={lent}
        />
        <Select
          label={t("create.priority")}
          data={classes.map((c) => ({ value: c, label: t(`create.priority.${c}`) }))}
          value={f.priorityClass || "training"}
          onChange={(v) => change({ priorityClass: v ?? "" })}
          allowDeselect={false}
          disabled={disabled}
        />
        <NumberInput
          label={t("create.devices")}
          value={f.devices}
          onChange={(v) => typeof v === "number" && change({ devices: v })}
          min={0}
          max={64}
          allowDecimal={false}
          disabled={lent}
        />
        <Select
          label={t("create.deviceType")}
          placeholder={t("create.anyType")}
          data={f.deviceType !== "" && !types.includes(f.deviceType) ? [...types, f.deviceType] : types}
          value={f.deviceType || null}
          onChange={(v) => change({ deviceType: v ?? "" })}
          clearable
          disabled={lent}
        />
        <TextInput
          label={t("create.cpu")}
          placeholder={t("create.default")}
          value={f.cpu}
          onChange={(e) => change({ cpu: e.currentTarget.value })}
          disabled={lent}
          maxLength={32}
        />
        <TextInput
          label={t("create.memory")}
          placeholder={t("create.default")}
          value={f.memory}
          onChange={(e) => change({ memory: e.currentTarget.value })}
          disabled={lent}
          maxLength={32}
        />
      </SimpleGrid>
      <MultiSelect
        label={t("create.zones")}
        description={t("create.zonesHint")}
        data={(zones.data?.items ?? []).map((z) => ({ value: z.metadata.name ?? "", label: title(z) }))}
        value={f.zones}
        onChange={(v) => change({ zones: v })}
        disabled={lent}
      />
    </Stack>
  );
}
