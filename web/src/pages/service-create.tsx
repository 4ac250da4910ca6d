import { NumberInput, SegmentedControl, Select, SimpleGrid, Stack, Text, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { useTasks } from "../api/queries";
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
import { keepProject, usualProject } from "../project";
import { emptyService, type ServiceForm, serviceOf } from "../workform";

export function CreateService() {
  return <WithProjects>{(projects) => <Editor projects={projects} />}</WithProjects>;
}

const protocols = ["rest", "grpc", "websocket"] as const;
const formats = ["openai", "kserve-v2", "json"] as const;
const ownFields = [
  "image",
  "command",
  "code",
  "archive",
  "gitUrl",
  "gitRevision",
  "gitSecret",
  "folder",
  "port",
  "health",
];

/** Fields that are not on the page now. */
function hidden(f: ServiceForm): readonly string[] {
  if (f.engine === "sample") return ownFields;
  const sources = { none: [], archive: ["archive"], git: ["gitUrl", "gitRevision", "gitSecret"], folder: ["folder"] };
  const shown: readonly string[] = sources[f.code];
  const code = ["archive", "gitUrl", "gitRevision", "gitSecret", "folder"].filter((k) => !shown.includes(k));
  return ["modelTask", "modelFile", ...code];
}

function Editor({ projects }: { projects: readonly Project[] }) {
  const { t } = useTranslation();
  const names = projects.map((p) => p.metadata.name ?? "");
  const { form, change, faults, refused, clear } = useWorkForm<ServiceForm>(
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
          <div>
            <Text size="sm" fw={500} mb={4} id="svc-engine">
              {t("svc.engine")}
            </Text>
            <SegmentedControl
              aria-labelledby="svc-engine"
              data={[
                { value: "sample", label: t("svc.engine.sample") },
                { value: "custom", label: t("svc.engine.custom") },
              ]}
              value={form.engine}
              onChange={(v) => change({ engine: v === "sample" ? "sample" : "custom" })}
              fullWidth
            />
            <Text size="xs" c="dimmed" mt={4}>
              {t(`svc.engineHint.${form.engine}`)}
            </Text>
          </div>
          {form.engine === "sample" ? (
            <Model form={form} change={change} at={at} />
          ) : (
            <>
              <ImageField form={form} change={change} at={at} />
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
          <NumberInput label={t("create.replicas")} min={1} max={1000} {...number("replicas")} maw={320} />
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
          <ValueFields form={form} change={change} at={at} />
        </Stack>
      </Panel>
    </FormPage>
  );
}

/** What the sample engine answers with: the model that a task of the project left, or one that it trains itself. */
function Model(props: {
  form: ServiceForm;
  change: (patch: Partial<ServiceForm>) => void;
  at: Record<string, string>;
}) {
  const { form, change, at } = props;
  const { t } = useTranslation();
  const tasks = useTasks({ phase: ["Completed"], limit: 200, sort: "-createdAt" });
  const here = (tasks.data?.pages ?? [])
    .flatMap((p) => p.items)
    .filter((task) => task.metadata.project === form.project)
    .map((task) => ({
      value: task.metadata.name ?? "",
      label: title(task) === task.metadata.name ? title(task) : `${title(task)} (${task.metadata.name})`,
    }));
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }}>
      <Select
        label={t("svc.model")}
        description={t("svc.modelHint")}
        placeholder={t("svc.modelNone")}
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
        disabled={form.modelTask === ""}
        maxLength={1024}
        spellCheck={false}
      />
    </SimpleGrid>
  );
}
