import { NumberInput, SegmentedControl, Select, SimpleGrid, Stack, Text, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useZones } from "../api/queries";
import { type EnvironmentTemplate, useMake, useTemplates } from "../api/works";
import { said, title } from "../format";
import { withOwn } from "../parts/create-fields";
import { ClockFields, MachineFields, PageFields, ShareField, StorageField } from "../parts/environment-fields";
import { useLanguage } from "../parts/now";
import { Panel } from "../parts/states";
import {
  CommandField,
  FormPage,
  ImageField,
  NameFields,
  type Project,
  useWorkForm,
  ValueFields,
  WithProjects,
} from "../parts/work-fields";
import { keepProject, usualProject } from "../project";
import { afterTemplate, type EnvironmentType, emptyEnvironment, environmentOf, environmentTypes } from "../workform";

export function CreateEnvironment() {
  return <WithProjects>{(projects) => <Editor projects={projects} />}</WithProjects>;
}

function Editor({ projects }: { projects: readonly Project[] }) {
  const { t } = useTranslation();
  const names = projects.map((p) => p.metadata.name ?? "");
  const { form, change, faults, refused, clear } = useWorkForm(
    { ...emptyEnvironment, project: usualProject(names) },
    () => [],
  );
  const zones = useZones();
  const make = useMake("dev-environments");
  const [template, choose] = useState<EnvironmentTemplate | null>(null);
  const navigate = useNavigate();
  const at = faults.at;
  function send() {
    clear();
    const { metadata, spec } = environmentOf(form);
    const base = template?.spec.environment as Record<string, unknown> | undefined;
    make.mutate(
      { manifest: { metadata, spec: base ? afterTemplate(base, spec) : spec }, project: form.project },
      {
        onError: refused,
        onSuccess: (made) => {
          keepProject(form.project);
          void navigate({ to: "/environments/$name", params: { name: made.metadata.id ?? made.metadata.name ?? "" } });
        },
      },
    );
  }
  return (
    <FormPage
      title={t("env.create")}
      submitWord={t("env.submit")}
      projects={projects}
      error={make.error}
      faults={faults}
      pending={make.isPending}
      send={send}
    >
      <Panel title={t("work.basic")}>
        <Stack gap="sm">
          <TemplateField
            project={form.project}
            chosen={template}
            choose={(next) => {
              choose(next);
              if (next?.spec.environment.type) change({ type: next.spec.environment.type });
            }}
          />
          <NameFields form={form} change={change} at={at} projects={projects} hint={t("create.displayNameHint")} />
          <div>
            <Text size="sm" fw={500} mb={4} id="env-type">
              {t("env.type")}
            </Text>
            <SegmentedControl
              aria-labelledby="env-type"
              data={environmentTypes.map((type) => ({ value: type, label: t(`env.type.${type}`) }))}
              value={form.type}
              onChange={(v) => change({ type: v as EnvironmentType })}
              fullWidth
            />
            <Text size="xs" c="dimmed" mt={4}>
              {t(`env.typeHint.${form.type}`)}
            </Text>
          </div>
          <ImageField form={form} change={change} at={at} />
        </Stack>
      </Panel>
      <Panel title={t("work.resources")}>
        <Stack gap="sm">
          <MachineFields form={form} change={change} at={at} />
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <StorageField form={form} change={change} at={at} />
            <Select
              label={t("tasks.zone")}
              description={t("env.zoneHint")}
              placeholder={t("create.zonesHint")}
              data={withOwn(
                (zones.data?.items ?? []).map((z) => ({ value: z.metadata.name ?? "", label: title(z) })),
                form.zone,
              )}
              value={form.zone || null}
              onChange={(v) => change({ zone: v ?? "" })}
              error={at.zone}
              clearable
            />
          </SimpleGrid>
        </Stack>
      </Panel>
      <Panel title={t("env.pages")}>
        <PageFields form={form} change={change} at={at} />
      </Panel>
      <Panel title={t("env.firstFiles")}>
        <Stack gap="sm">
          <TextInput
            label={t("env.from")}
            description={t("env.fromHint")}
            placeholder="home-lab-4k2m9x7pq@2"
            value={form.from}
            onChange={(e) => change({ from: e.currentTarget.value.trim() })}
            error={at.from}
            maxLength={128}
            spellCheck={false}
            maw={420}
          />
          <TextInput
            label={t("env.git")}
            description={t("env.gitHint")}
            placeholder="https://git.example.org/team/code.git@main"
            value={form.git}
            onChange={(e) => change({ git: e.currentTarget.value })}
            error={at.git}
            maxLength={2048}
            spellCheck={false}
          />
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TextInput
              label={t("env.dotfiles")}
              description={t("env.dotfilesHint")}
              placeholder="https://git.example.org/me/dotfiles.git"
              value={form.dotfiles}
              onChange={(e) => change({ dotfiles: e.currentTarget.value })}
              error={at.dotfiles}
              maxLength={2048}
              spellCheck={false}
            />
            <TextInput
              label={t("env.gitSecret")}
              description={t("env.gitSecretHint")}
              value={form.gitSecret}
              onChange={(e) => change({ gitSecret: e.currentTarget.value.trim() })}
              error={at.gitSecret}
              spellCheck={false}
            />
          </SimpleGrid>
        </Stack>
      </Panel>
      <Panel title={t("work.advanced")}>
        <Stack gap="sm">
          <CommandField
            form={form}
            change={change}
            at={at}
            hint={t("env.commandHint")}
            example="tensorboard --logdir runs"
          />
          <NumberInput
            label={t("env.restarts")}
            description={t("env.restartsHint")}
            placeholder="3"
            value={form.restarts}
            onChange={(v) => change({ restarts: typeof v === "number" ? v : "" })}
            error={at.restarts}
            min={0}
            clampBehavior="none"
            allowDecimal={false}
            allowNegative={false}
            maw={320}
          />
          <ClockFields form={form} change={change} at={at} />
          <ValueFields form={form} change={change} at={at} />
          <ShareField form={form} change={change} />
        </Stack>
      </Panel>
    </FormPage>
  );
}

/** What the environment is made after; nothing is asked where there is no template. */
function TemplateField(props: {
  project: string;
  chosen: EnvironmentTemplate | null;
  choose: (next: EnvironmentTemplate | null) => void;
}) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const all = useTemplates();
  const list = (all.data ?? []).filter((x) => !x.spec.project || x.spec.project === props.project);
  if (list.length === 0) return null;
  const { chosen } = props;
  const r = chosen?.spec.environment.resources;
  const has = [
    chosen?.spec.environment.image,
    r?.accelerators?.count && `${r.accelerators.count} ${r.accelerators.type ?? ""}`.trim(),
    r?.cpu && `${r.cpu} CPU`,
    r?.memory,
    chosen?.spec.environment.storage,
  ].filter(Boolean);
  return (
    <div>
      <Select
        label={t("env.template")}
        description={t("env.templateHint")}
        placeholder={t("env.templateNone")}
        data={list.map((x) => ({ value: x.metadata.name ?? "", label: title(x) }))}
        value={chosen?.metadata.name ?? null}
        onChange={(v) => props.choose(list.find((x) => x.metadata.name === v) ?? null)}
        clearable
        searchable
      />
      {chosen && (
        <Text size="xs" c="dimmed" mt={4} className="break">
          {[said(chosen.spec.description, lang), has.join(" · ")].filter(Boolean).join(" ")}
        </Text>
      )}
    </div>
  );
}
