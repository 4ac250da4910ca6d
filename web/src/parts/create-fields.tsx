import {
  Alert,
  Button,
  Group,
  Input,
  MultiSelect,
  NumberInput,
  SegmentedControl,
  Select,
  SimpleGrid,
  Stack,
  TagsInput,
  Text,
  Textarea,
  TextInput,
} from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Schemas, Zone } from "../api/client";
import { useNodes, useQueues, useZones } from "../api/queries";
import { useDatasets } from "../api/shelf";
import { type Form, shownCommand, within } from "../draft";
import type { Faults } from "../faults";
import { title } from "../format";
import { classesOf, mayUse, type PriorityClass, priorities } from "../project";
import { CodeFields } from "./code";
import { Inside } from "./inside";
import { Params, Secrets } from "./rows";

const frameworks: NonNullable<Schemas["TrainingTaskSpec"]["framework"]>[] = [
  "plain",
  "pytorch-ddp",
  "pytorch-fsdp",
  "deepspeed",
  "megatron-lm",
  "horovod",
  "tensorflow",
  "paddle",
  "mxnet",
  "jax",
  "mpi",
  "ray",
];

const blank: Form = {
  project: "",
  queue: "",
  code: "none",
  archive: "",
  gitUrl: "",
  gitRevision: "",
  gitSecret: "",
  folder: "",
  requirements: "",
  params: [],
  secrets: [],
  datasets: [],
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
  spot: "",
  framework: "",
  inside: [],
  fromTask: "",
  fromStep: 0,
};

type Project = Schemas["Project"];

interface Props {
  form: Form | undefined;
  change: (patch: Partial<Form>) => void;
  faults: Faults;
  projects: readonly Project[];
  /** Whether it runs inside what runs already. */
  existing: boolean;
  setExisting: (yes: boolean) => void;
}

function isClass(word: string): word is PriorityClass {
  return word in priorities;
}

/** With what the list has not, so that it is not lost. */
export function withOwn(list: { value: string; label: string }[], own: string) {
  return own === "" || list.some((e) => e.value === own) ? list : [...list, { value: own, label: own }];
}

/** A framework as the manifest has it. */
const bare = (framework: string) => (framework === "plain" ? "" : framework);

export function Fields({ form, change, faults, projects, existing, setExisting }: Props) {
  const { t } = useTranslation();
  const zones = useZones();
  const datasets = useDatasets();
  const nodes = useNodes();
  const types = useMemo(
    () => [...new Set((nodes.data?.items ?? []).flatMap((n) => (n.spec.devices ?? []).map((d) => d.type)))].sort(),
    [nodes.data],
  );
  const f = form ?? blank;
  const [typed, setTyped] = useState(""); // with the spaces that the manifest does not keep
  const { at, rows } = faults;
  const disabled = form === undefined;
  const lent = disabled || f.inside.length > 0; // what it has is then that of others
  const mine = projects.find((p) => p.metadata.name === f.project);
  const classes = classesOf(mine?.spec?.maxPriority);
  if (isClass(f.priorityClass) && !classes.includes(f.priorityClass)) classes.push(f.priorityClass);
  return (
    <Stack gap="sm">
      {disabled && <Text size="sm">{t("create.yamlBad")}</Text>}
      <SegmentedControl
        aria-label={t("inside.mode")}
        data={[
          { value: "new", label: t("inside.modeNew") },
          { value: "existing", label: t("inside.modeExisting") },
        ]}
        value={existing ? "existing" : "new"}
        onChange={(mode) => {
          setExisting(mode === "existing");
          if (mode === "new" && f.inside.length > 0) change(within([]));
        }}
        disabled={disabled}
      />
      <TextInput
        label={t("create.displayName")}
        description={t("create.displayNameHint")}
        value={f.displayName}
        onChange={(e) => change({ displayName: e.currentTarget.value })}
        error={at.displayName}
        disabled={disabled}
        maxLength={128}
      />
      <Tenancy form={f} change={change} faults={at} projects={projects} disabled={disabled} />
      {existing && (
        <Inside
          project={f.project}
          names={f.inside}
          framework={f.framework}
          change={(names, framework) => change({ ...within(names), ...(framework && { framework: bare(framework) }) })}
          error={at.inside}
          disabled={disabled}
        />
      )}
      <CodeFields form={f} change={change} faults={at} disabled={disabled} folders={foldersOf(mine)} />
      <Textarea
        label={t("create.command")}
        description={t("create.commandHint")}
        placeholder={f.code === "none" ? "fermi sample train" : "python train.py"}
        value={shownCommand(typed) === f.command ? typed : f.command}
        onChange={(e) => {
          setTyped(e.currentTarget.value);
          change({ command: e.currentTarget.value });
        }}
        error={at.command}
        disabled={disabled}
        autosize
        minRows={2}
        maxRows={8}
        spellCheck={false}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 13 } }}
      />
      <TagsInput
        label={t("create.datasets")}
        description={t("create.datasetsHint")}
        data={[
          ...new Set(
            (datasets.data ?? [])
              .filter((d) => f.project === "" || d.metadata.project === f.project)
              .map((d) => d.metadata.name ?? ""),
          ),
        ]}
        value={f.datasets}
        onChange={(list) => change({ datasets: list })}
        error={at.datasets}
        disabled={disabled}
        maxTags={32}
        maxLength={128}
      />
      <Params
        value={f.params}
        change={(params) => change({ params })}
        disabled={disabled}
        faults={rows}
        error={at.params}
      />
      {f.fromTask !== "" && (
        <Input.Wrapper
          label={t("create.from")}
          description={t("create.fromHint")}
          error={at.fromTask}
          labelElement="div"
        >
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
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <Select
          label={t("create.framework")}
          data={withOwn(
            frameworks.map((w) => ({ value: w, label: w === "plain" ? t("create.plain") : w })),
            f.framework,
          )}
          value={f.framework || "plain"}
          onChange={(v) => change({ framework: v === "plain" || v === null ? "" : v })}
          error={at.framework}
          allowDeselect={false}
          disabled={disabled}
        />
        <Select
          label={t("create.priority")}
          data={classes.map((c) => ({ value: c, label: t(`create.priority.${c}`) }))}
          value={f.priorityClass || "training"}
          onChange={(v) => change({ priorityClass: v ?? "" })}
          error={at.priorityClass}
          allowDeselect={false}
          disabled={disabled}
        />
        <NumberInput
          label={t("create.replicas")}
          value={f.replicas}
          onChange={(v) => typeof v === "number" && change({ replicas: v })}
          error={at.replicas}
          min={1}
          max={16384}
          allowDecimal={false}
          disabled={lent}
        />
        <NumberInput
          label={t("create.devices")}
          value={f.devices}
          onChange={(v) => typeof v === "number" && change({ devices: v })}
          error={at.devices}
          min={0}
          max={64}
          allowDecimal={false}
          disabled={lent}
        />
        <Select
          label={t("create.deviceType")}
          placeholder={t("create.anyType")}
          data={withOwn(
            types.map((type) => ({ value: type, label: type })),
            f.deviceType,
          )}
          value={f.deviceType || null}
          onChange={(v) => change({ deviceType: v ?? "" })}
          error={at.deviceType}
          clearable
          disabled={lent}
        />
        <MultiSelect
          label={t("create.zones")}
          placeholder={f.zones.length === 0 ? t("create.zonesHint") : undefined}
          data={(zones.data?.items ?? []).map((z) => ({ value: z.metadata.name ?? "", label: title(z) }))}
          value={f.zones}
          onChange={(v) => change({ zones: v })}
          error={at.zones}
          disabled={lent}
        />
        <SpotField value={f.spot} change={(spot) => change({ spot })} error={at.spot} disabled={lent} />
        <TextInput
          label={t("create.cpu")}
          placeholder={t("create.default")}
          value={f.cpu}
          onChange={(e) => change({ cpu: e.currentTarget.value })}
          error={at.cpu}
          disabled={lent}
          maxLength={32}
        />
        <TextInput
          label={t("create.memory")}
          placeholder={t("create.default")}
          value={f.memory}
          onChange={(e) => change({ memory: e.currentTarget.value })}
          error={at.memory}
          disabled={lent}
          maxLength={32}
        />
      </SimpleGrid>
      {!lent && nominal(zones.data?.items ?? [], f.zones) && (
        <Alert color="gray" variant="light" p="xs" role="note">
          <Text size="sm">{t("create.nominal")}</Text>
        </Alert>
      )}
      <TextInput
        label={t("create.image")}
        description={t("create.imageHint")}
        placeholder="name:tag"
        value={f.image}
        onChange={(e) => change({ image: e.currentTarget.value })}
        error={at.image}
        disabled={lent}
        maxLength={512}
        spellCheck={false}
      />
      <Secrets
        key={f.project}
        project={f.project}
        value={f.secrets}
        change={(secrets) => change({ secrets })}
        disabled={disabled}
        faults={rows}
        error={at.secrets}
      />
    </Stack>
  );
}

/** Whether what is asked for is only counted: the task may come to nodes that no hardware stands behind. */
export function nominal(zones: readonly Zone[], chosen: readonly string[]): boolean {
  return zones.some((z) => z.spec.virtual && (chosen.length === 0 || chosen.includes(z.metadata.name ?? "")));
}

/** Folders that a project was granted, as names; a server that knows of none says nothing. */
export function foldersOf(project: Project | undefined): string[] {
  const list: unknown = (project?.spec as { folders?: unknown } | undefined)?.folders;
  if (!Array.isArray(list)) return [];
  return list
    .map((f: unknown) => (typeof f === "string" ? f : String((f as { name?: unknown })?.name ?? "")))
    .filter(Boolean);
}

/** Whose the task is, and in which queue it waits. */
function Tenancy(props: {
  form: Form;
  change: (patch: Partial<Form>) => void;
  faults: Faults["at"];
  projects: readonly Project[];
  disabled: boolean;
}) {
  const { form, change, faults, projects, disabled } = props;
  const { t } = useTranslation();
  const queues = useQueues();
  const mine = projects.find((p) => p.metadata.name === form.project);
  const usual = mine?.spec?.queue || "default";
  const open = (queues.data?.items ?? []).filter((q) => mayUse(q, form.project, usual));
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }}>
      <Select
        label={t("create.project")}
        data={withOwn(
          projects.map((p) => ({ value: p.metadata.name ?? "", label: title(p) })),
          form.project,
        )}
        value={form.project || null}
        // A queue, and what is named of a project, is that project's.
        onChange={(v) => v !== null && v !== form.project && change({ project: v, queue: "" })}
        error={faults.project}
        allowDeselect={false}
        searchable={projects.length > 10}
        disabled={disabled}
      />
      <Select
        label={t("create.queue")}
        placeholder={t("create.queueOf", { name: usual })}
        data={withOwn(
          open.map((q) => ({ value: q.metadata.name ?? "", label: title(q) })),
          form.queue,
        )}
        value={form.queue || null}
        onChange={(v) => change({ queue: v ?? "" })}
        error={faults.queue}
        clearable
        disabled={disabled}
      />
    </SimpleGrid>
  );
}

/** Whether work may stand on nodes that may be taken away at short notice. */
export function SpotField(props: {
  value: string;
  change: (spot: string) => void;
  error: string | undefined;
  disabled?: boolean;
}) {
  const { t } = useTranslation();
  return (
    <Select
      label={t("create.spot")}
      placeholder={t("create.spotAny")}
      data={[
        { value: "never", label: t("create.spotNever") },
        { value: "prefer", label: t("create.spotPrefer") },
        { value: "only", label: t("create.spotOnly") },
      ]}
      value={props.value || null}
      onChange={(v) => props.change(v ?? "")}
      error={props.error}
      disabled={props.disabled ?? false}
      clearable
    />
  );
}
