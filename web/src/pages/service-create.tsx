import { NumberInput, Select, SimpleGrid, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { useTasks } from "../api/queries";
import { useModels } from "../api/shelf";
import { useMake } from "../api/works";
import { title } from "../format";
import { CodeFields } from "../parts/code";
import { foldersOf, withOwn } from "../parts/create-fields";
import { Panel } from "../parts/states";
import {
  CommandField,
  FormPage,
  ImageField,
  NameFields,
  type Project,
  ResourceFields,
  useWorkForm,
  ValueFields,
  WithProjects,
} from "../parts/work-fields";
import { ZoneRows } from "../parts/zone-rows";
import { keepProject, usualProject } from "../project";
import {
  type EngineOption,
  emptyService,
  engineGroups,
  engineOptions,
  optionsOf,
  type ServiceForm,
  schemaOf,
  serviceOf,
} from "../workform";

export function CreateService() {
  return <WithProjects>{(projects) => <Editor projects={projects} />}</WithProjects>;
}

const protocols = ["rest", "grpc", "websocket"] as const;
const formats = ["openai", "kserve-v2", "json"] as const;
const precisions = ["auto", "float32", "float16", "bfloat16"];
const engines = Object.values(engineGroups).flat();
const ownFields = ["command", "code", "archive", "gitUrl", "gitRevision", "gitSecret", "folder", "port", "health"];

/** Where the model of an engine may come from. */
function modelSources(engine: ServiceForm["engine"]) {
  return engine === "custom" ? (["none", "registry"] as const) : (["none", "registry", "task"] as const);
}

/** Fields that are not on the page now. */
function hidden(f: ServiceForm): readonly string[] {
  const models = { none: [], registry: ["modelName", "modelVersion"], task: ["modelTask", "modelFile"] };
  const known: readonly string[] = optionsOf(f.engine);
  const gone = [
    ...["modelName", "modelVersion", "modelTask", "modelFile"].filter(
      (k) => !(models[f.modelFrom] as string[]).includes(k),
    ),
    ...engineOptions.filter((o) => !known.includes(o)),
    ...(f.format === "json" && f.protocol !== "grpc" ? [] : ["schema"]),
    ...(f.zones.length > 0 ? ["replicas"] : []),
  ];
  if (f.engine !== "custom") return [...gone, ...ownFields, ...(f.engine === "sample" ? ["image"] : [])];
  const sources = { none: [], archive: ["archive"], git: ["gitUrl", "gitRevision", "gitSecret"], folder: ["folder"] };
  const shown: readonly string[] = sources[f.code];
  const code = ["archive", "gitUrl", "gitRevision", "gitSecret", "folder"].filter((k) => !shown.includes(k));
  return [...gone, ...code];
}

function Editor({ projects }: { projects: readonly Project[] }) {
  const { t } = useTranslation();
  const names = projects.map((p) => p.metadata.name ?? "");
  const { form, change, faults, refused, clear, setFaults } = useWorkForm<ServiceForm>(
    { ...emptyService, project: usualProject(names) },
    hidden,
  );
  const make = useMake("inference-services");
  const navigate = useNavigate();
  const at = faults.at;
  const mine = projects.find((p) => p.metadata.name === form.project);
  const number = (key: "replicas" | "port" | "maxConcurrency" | "maxQueue") => ({
    value: form[key],
    onChange: (v: string | number) => change({ [key]: typeof v === "number" ? v : "" }),
    error: at[key],
    clampBehavior: "none" as const,
    allowDecimal: false,
    allowNegative: false,
  });
  function send() {
    clear();
    if (schemaOf(form).bad) {
      make.reset();
      setFaults({ at: { schema: t("svc.schemaBad") }, rest: [] });
      return;
    }
    make.mutate(
      { manifest: serviceOf(form), project: form.project },
      {
        onError: refused,
        onSuccess: (made) => {
          keepProject(form.project);
          void navigate({ to: "/services/$name", params: { name: made.metadata.id ?? made.metadata.name ?? "" } });
        },
      },
    );
  }
  return (
    <FormPage
      title={t("svc.create")}
      submitWord={t("svc.submit")}
      projects={projects}
      error={make.error}
      faults={faults}
      pending={make.isPending}
      send={send}
    >
      <Panel title={t("work.basic")}>
        <Stack gap="sm">
          <NameFields form={form} change={change} at={at} projects={projects} hint={t("svc.nameHint")} />
          <TextInput
            label={t("svc.id")}
            description={t("svc.idHint")}
            placeholder="my-model"
            value={form.id}
            onChange={(e) => change({ id: e.currentTarget.value })}
            error={at.id}
            maxLength={50}
            spellCheck={false}
          />
          <Select
            label={t("svc.engine")}
            description={t(`svc.engineHint.${form.engine}`)}
            data={Object.entries(engineGroups).map(([group, items]) => ({
              group: t(`svc.engines.${group as keyof typeof engineGroups}`),
              items: items.map((e) => ({ value: e, label: t(`svc.engine.${e}`) })),
            }))}
            value={form.engine}
            onChange={(v) => {
              const engine = engines.find((e) => e === v) ?? "sample";
              const modelFrom = form.modelFrom === "task" && engine === "custom" ? "none" : form.modelFrom;
              change({ engine, modelFrom });
            }}
            error={at.engine}
            allowDeselect={false}
            maxDropdownHeight={480}
            inputWrapperOrder={["label", "input", "description", "error"]}
          />
          {form.engine !== "sample" && <ImageField form={form} change={change} at={at} />}
          <Model form={form} change={change} at={at} />
          {optionsOf(form.engine).length > 0 && <Options form={form} change={change} at={at} />}
          {form.engine === "custom" && (
            <>
              <CodeFields form={form} change={change} faults={at} disabled={false} folders={foldersOf(mine)} />
              <CommandField
                form={form}
                change={change}
                at={at}
                hint={t("svc.commandHint")}
                example="python -m vllm.entrypoints.openai.api_server --port $PORT"
              />
              <SimpleGrid cols={{ base: 1, xs: 2 }}>
                <NumberInput
                  label={t("svc.port")}
                  description={t("svc.portHint")}
                  placeholder="$PORT"
                  min={1}
                  max={65535}
                  {...number("port")}
                />
                <TextInput
                  label={t("svc.health")}
                  description={t("svc.healthHint")}
                  placeholder="/healthz"
                  value={form.health}
                  onChange={(e) => change({ health: e.currentTarget.value })}
                  error={at.health}
                  maxLength={1024}
                  spellCheck={false}
                />
              </SimpleGrid>
            </>
          )}
        </Stack>
      </Panel>
      <Panel title={t("work.resources")}>
        <Stack gap="sm">
          {form.zones.length === 0 && (
            <NumberInput label={t("create.replicas")} min={1} max={1000} {...number("replicas")} maw={320} />
          )}
          <ZoneRows value={form.zones} change={(zones) => change({ zones })} at={at} />
          <Text size="sm" c="dimmed">
            {t("svc.eachHint")}
          </Text>
          <ResourceFields form={form} change={change} at={at} zones={[]} most={64} />
        </Stack>
      </Panel>
      <Panel title={t("work.advanced")}>
        <Stack gap="sm">
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <Select
              label={t("svc.protocol")}
              data={protocols.map((p) => ({ value: p, label: t(`svc.protocol.${p}`) }))}
              value={form.protocol}
              onChange={(v) => change({ protocol: protocols.find((p) => p === v) ?? "rest" })}
              error={at.protocol}
              allowDeselect={false}
            />
            <Select
              label={t("svc.format")}
              description={t("svc.formatHint")}
              placeholder={t("svc.formatNone")}
              data={formats.map((f) => ({ value: f, label: t(`svc.format.${f}`) }))}
              value={form.format || null}
              onChange={(v) => change({ format: formats.find((f) => f === v) ?? "" })}
              error={at.format}
              disabled={form.protocol === "grpc"}
              clearable
              inputWrapperOrder={["label", "input", "description", "error"]}
            />
            <TextInput
              label={t("svc.path")}
              description={t("svc.pathHint")}
              placeholder="/"
              value={form.path}
              onChange={(e) => change({ path: e.currentTarget.value })}
              error={at.path}
              maxLength={1024}
              spellCheck={false}
              inputWrapperOrder={["label", "input", "description", "error"]}
            />
            <TextInput
              label={t("svc.timeout")}
              description={t("svc.timeoutHint")}
              placeholder="60s"
              value={form.timeout}
              onChange={(e) => change({ timeout: e.currentTarget.value })}
              error={at.timeout}
              maxLength={32}
              inputWrapperOrder={["label", "input", "description", "error"]}
            />
            <NumberInput
              label={t("svc.maxConcurrency")}
              description={t("svc.maxConcurrencyHint")}
              placeholder="64"
              min={1}
              {...number("maxConcurrency")}
              inputWrapperOrder={["label", "input", "description", "error"]}
            />
            <NumberInput
              label={t("svc.maxQueue")}
              description={t("svc.maxQueueHint")}
              placeholder="128"
              min={1}
              {...number("maxQueue")}
              inputWrapperOrder={["label", "input", "description", "error"]}
            />
          </SimpleGrid>
          {form.format === "json" && form.protocol !== "grpc" && (
            <Textarea
              label={t("svc.schemaField")}
              description={t("svc.schemaHint")}
              placeholder={'{"type": "object", "required": ["x"], "properties": {"x": {"type": "number"}}}'}
              value={form.schema}
              onChange={(e) => change({ schema: e.currentTarget.value })}
              error={at.schema}
              autosize
              minRows={3}
              maxRows={16}
              spellCheck={false}
              styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 13 } }}
            />
          )}
          <ValueFields form={form} change={change} at={at} />
        </Stack>
      </Panel>
    </FormPage>
  );
}

interface Fields {
  form: ServiceForm;
  change: (patch: Partial<ServiceForm>) => void;
  at: Record<string, string>;
}

/** What the engine's flags are made from. */
function Options({ form, change, at }: Fields) {
  const { t } = useTranslation();
  const below = ["label", "input", "description", "error"] as const;
  const number = (o: Exclude<EngineOption, "precision">) => (
    <NumberInput
      key={o}
      label={t(`svc.option.${o}`)}
      description={t(`svc.optionHint.${o}`)}
      placeholder={t("svc.optionNone")}
      min={1}
      value={form[o]}
      onChange={(v) => change({ [o]: typeof v === "number" ? v : "" })}
      error={at[o]}
      clampBehavior="none"
      allowDecimal={false}
      allowNegative={false}
      inputWrapperOrder={[...below]}
    />
  );
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }}>
      {optionsOf(form.engine).map((o) =>
        o === "precision" ? (
          <Select
            key={o}
            label={t("svc.option.precision")}
            description={t("svc.optionHint.precision")}
            placeholder={t("svc.optionNone")}
            data={precisions}
            value={form.precision || null}
            onChange={(v) => change({ precision: v ?? "" })}
            error={at.precision}
            clearable
            inputWrapperOrder={[...below]}
          />
        ) : (
          number(o)
        ),
      )}
    </SimpleGrid>
  );
}

/** What the engine answers with: a version of the registry, or what a task of the project left. */
function Model({ form, change, at }: Fields) {
  const { t } = useTranslation();
  const tasks = useTasks({ phase: ["Completed"], limit: 200, sort: "-createdAt" });
  const models = useModels();
  const here = (tasks.data?.pages ?? [])
    .flatMap((p) => p.items)
    .filter((task) => task.metadata.project === form.project)
    .map((task) => ({
      value: task.metadata.name ?? "",
      label: title(task) === task.metadata.name ? title(task) : `${title(task)} (${task.metadata.name})`,
    }));
  const known = (models.data ?? [])
    .filter((m) => m.metadata.project === form.project)
    .map((m) => ({ value: m.metadata.name ?? "", label: title(m) }));
  const sources = modelSources(form.engine);
  return (
    <SimpleGrid cols={{ base: 1, xs: form.modelFrom === "none" ? 2 : 3 }}>
      <Select
        label={t("svc.modelFrom")}
        data={sources.map((m) => ({
          value: m,
          label: t(m === "none" && form.engine === "sample" ? "svc.modelFrom.itself" : `svc.modelFrom.${m}`),
        }))}
        value={form.modelFrom}
        onChange={(v) => change({ modelFrom: sources.find((m) => m === v) ?? "none" })}
        allowDeselect={false}
      />
      {form.modelFrom === "registry" && (
        <>
          <Select
            label={t("svc.modelName")}
            placeholder={known.length === 0 ? t("svc.modelEmpty") : ""}
            data={withOwn(known, form.modelName)}
            value={form.modelName || null}
            onChange={(v) => change({ modelName: v ?? "" })}
            error={at.modelName}
            searchable
          />
          <TextInput
            label={t("svc.modelVersion")}
            description={t("svc.modelVersionHint")}
            placeholder="latest"
            value={form.modelVersion}
            onChange={(e) => change({ modelVersion: e.currentTarget.value })}
            error={at.modelVersion}
            maxLength={63}
            spellCheck={false}
            inputWrapperOrder={["label", "input", "description", "error"]}
          />
        </>
      )}
      {form.modelFrom === "task" && (
        <>
          <Select
            label={t("svc.model")}
            data={withOwn(here, form.modelTask)}
            value={form.modelTask || null}
            onChange={(v) => change({ modelTask: v ?? "" })}
            error={at.modelTask}
            searchable
            clearable
          />
          <TextInput
            label={t("svc.modelFile")}
            description={t("svc.modelFileHint")}
            placeholder="model.json"
            value={form.modelFile}
            onChange={(e) => change({ modelFile: e.currentTarget.value })}
            error={at.modelFile}
            maxLength={1024}
            spellCheck={false}
            inputWrapperOrder={["label", "input", "description", "error"]}
          />
        </>
      )}
    </SimpleGrid>
  );
}
