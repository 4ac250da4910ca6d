// The form that makes a version of what lies in a bucket, or in a folder of the machines.
import { Button, Checkbox, Group, Modal, SegmentedControl, Select, Stack, Text, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { Refused } from "../api/client";
import { useProjects, useSecrets } from "../api/queries";
import { useImport } from "../api/shelf";
import { title } from "../format";
import { emptyImport, type ImportForm, importFaults, importField, importTask } from "../importing";
import { keepProject, usualProject } from "../project";
import { SecretForm } from "./secrets";
import { Failure } from "./states";

export function ImportData() {
  const { t } = useTranslation();
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button onClick={() => setOpen(true)}>{t("import.open")}</Button>
      {open && <Form close={() => setOpen(false)} />}
    </>
  );
}

function Form({ close }: { close: () => void }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const projects = useProjects();
  const begin = useImport();
  const [form, set] = useState<ImportForm>(emptyImport);
  const [tried, setTried] = useState(false);
  const [account, setAccount] = useState(false);
  const names = (projects.data?.items ?? []).map((p) => p.metadata.name ?? "");
  const full = { ...form, project: form.project || usualProject(names) };
  const secrets = useSecrets(full.project);
  const faults = importFaults(full);
  const refused = begin.error instanceof Refused ? begin.error.fields : [];
  const change = (part: Partial<ImportForm>) => {
    begin.reset();
    set({ ...form, ...part });
  };
  const at = (field: keyof ImportForm) => {
    const own = tried ? faults[field] : undefined;
    return own ? t(own) : refused.find((f) => importField(f.path) === field)?.message;
  };
  const send = () => {
    setTried(true);
    if (Object.keys(faults).length > 0) return;
    begin.mutate(importTask(full), {
      onSuccess: (made) => {
        keepProject(full.project);
        void navigate({ to: "/tasks/$name", params: { name: made.taskId } });
      },
    });
  };
  const s3 = form.from === "s3";
  return (
    <Modal
      opened
      onClose={close}
      title={t("import.title")}
      centered
      size="lg"
      closeButtonProps={{ "aria-label": t("task.cancel") }}
    >
      <Stack gap="sm">
        <Text size="sm">{t("import.text")}</Text>
        <Select
          label={t("import.project")}
          data={(projects.data?.items ?? []).map((p) => ({ value: p.metadata.name ?? "", label: title(p) }))}
          value={full.project || null}
          onChange={(project) => change({ project: project ?? "", secret: "" })}
          error={at("project")}
        />
        <TextInput
          label={t("import.name")}
          description={t("import.nameHint")}
          value={form.name}
          onChange={(e) => change({ name: e.currentTarget.value })}
          error={at("name")}
          maxLength={40}
          spellCheck={false}
          data-autofocus
        />
        <SegmentedControl
          aria-label={t("import.from")}
          data={[
            { value: "s3", label: t("import.s3") },
            { value: "folder", label: t("import.folder") },
          ]}
          value={form.from}
          onChange={(from) => change({ from: from === "s3" ? "s3" : "folder", at: "" })}
        />
        <TextInput
          label={s3 ? t("import.bucket") : t("import.path")}
          description={s3 ? t("import.bucketHint") : t("import.pathHint")}
          placeholder={s3 ? "s3://photos/faces" : "pool/faces"}
          value={form.at}
          onChange={(e) => change({ at: e.currentTarget.value })}
          error={at("at")}
          maxLength={2048}
          spellCheck={false}
        />
        {s3 && (
          <>
            <Select
              label={t("import.secret")}
              description={t("import.secretHint")}
              data={(secrets.data?.items ?? [])
                .filter((x) => x.spec.type === "s3")
                .map((x) => ({ value: x.metadata.name ?? "", label: title(x) }))}
              value={form.secret || null}
              onChange={(secret) => change({ secret: secret ?? "" })}
              error={at("secret")}
              searchable
            />
            <Button
              size="compact-xs"
              variant="default"
              style={{ alignSelf: "flex-start" }}
              disabled={full.project === ""}
              onClick={() => setAccount(true)}
            >
              {t("import.account")}
            </Button>
            {account && (
              <SecretForm
                project={full.project}
                type="s3"
                close={() => setAccount(false)}
                done={(secret) => change({ secret })}
              />
            )}
            <Group grow align="flex-start">
              <TextInput
                label={t("import.endpoint")}
                placeholder="https://s3.example.org"
                value={form.endpoint}
                onChange={(e) => change({ endpoint: e.currentTarget.value })}
                error={at("endpoint")}
                maxLength={512}
                spellCheck={false}
              />
              <TextInput
                label={t("import.region")}
                value={form.region}
                onChange={(e) => change({ region: e.currentTarget.value })}
                error={at("region")}
                maxLength={64}
                spellCheck={false}
              />
            </Group>
          </>
        )}
        <Checkbox
          label={t("import.reference")}
          description={t("import.referenceHint")}
          checked={form.reference}
          onChange={(e) => change({ reference: e.currentTarget.checked })}
        />
        <TextInput
          label={t("import.message")}
          value={form.message}
          onChange={(e) => change({ message: e.currentTarget.value })}
          maxLength={1024}
        />
        {begin.error && <Failure error={begin.error} fields={refused.filter((f) => !importField(f.path))} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>
            {t("task.cancel")}
          </Button>
          <Button loading={begin.isPending} onClick={send}>
            {t("import.send")}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
