import {
  Alert,
  Autocomplete,
  Button,
  Group,
  Input,
  SegmentedControl,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
} from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { type SentCode, useSendCode } from "../api/queries";
import { type CodeSource, type Form, isPython } from "../draft";
import type { Faults } from "../faults";
import { bytes } from "../format";
import { Failure } from "./states";

/** What of a form is about code. */
export type CodeForm = Pick<
  Form,
  | "project"
  | "code"
  | "archive"
  | "gitUrl"
  | "gitRevision"
  | "gitSecret"
  | "folder"
  | "requirements"
  | "command"
  | "image"
>;

interface Props {
  form: CodeForm;
  change: (patch: Partial<CodeForm>) => void;
  faults: Faults["at"];
  disabled: boolean;
  /** Names of folders that the project was granted. */
  folders: readonly string[];
}

/** Where the code comes from: files of this computer, a repository, or a folder that the nodes have. */
export function CodeFields({ form, change, faults, disabled, folders }: Props) {
  const { t } = useTranslation();
  const sources: { value: CodeSource; label: string }[] = [
    { value: "none", label: t("create.codeNone") },
    { value: "archive", label: t("create.codeUpload") },
    { value: "git", label: "Git" },
    { value: "folder", label: t("create.codeFolder") },
  ];
  return (
    <Input.Wrapper label={t("create.code")} description={t("create.codeHint")} error={faults.code} labelElement="div">
      <Stack gap="xs" mt={6}>
        <SegmentedControl
          aria-label={t("create.code")}
          data={sources}
          value={form.code}
          onChange={(value) => change({ code: value as CodeSource })}
          disabled={disabled}
          fullWidth
        />
        {form.code === "archive" && <Upload form={form} change={change} error={faults.archive} disabled={disabled} />}
        {form.requirements !== "" && (
          <Group justify="space-between" gap="xs">
            <Text size="sm" className="break">
              {t("create.requirementsOn", { name: form.requirements })}
            </Text>
            <Button
              size="compact-xs"
              variant="default"
              onClick={() => change({ requirements: "" })}
              disabled={disabled}
              data-fault={faults.requirements ? true : undefined}
            >
              {t("create.requirementsOff")}
            </Button>
          </Group>
        )}
        {faults.requirements && <Input.Error>{faults.requirements}</Input.Error>}
        {form.code === "git" && (
          <Stack gap="xs">
            <TextInput
              label={t("create.gitUrl")}
              placeholder="https://example.org/team/train.git"
              value={form.gitUrl}
              onChange={(e) => change({ gitUrl: e.currentTarget.value })}
              error={faults.gitUrl}
              disabled={disabled}
              maxLength={2048}
              spellCheck={false}
            />
            <SimpleGrid cols={{ base: 1, xs: 2 }}>
              <TextInput
                label={t("create.gitRevision")}
                placeholder={t("create.gitRevisionHint")}
                value={form.gitRevision}
                onChange={(e) => change({ gitRevision: e.currentTarget.value })}
                error={faults.gitRevision}
                disabled={disabled}
                maxLength={256}
                spellCheck={false}
              />
              <TextInput
                label={t("create.gitSecret")}
                placeholder={t("create.gitSecretHint")}
                value={form.gitSecret}
                onChange={(e) => change({ gitSecret: e.currentTarget.value })}
                error={faults.gitSecret}
                disabled={disabled}
                maxLength={128}
                spellCheck={false}
              />
            </SimpleGrid>
          </Stack>
        )}
        {form.code === "folder" && (
          <Autocomplete
            label={t("create.folder")}
            description={t("create.folderHint")}
            placeholder={folders[0] ? `${folders[0]}/train` : "NAME/path"}
            data={[...folders]}
            value={form.folder}
            onChange={(value) => change({ folder: value })}
            error={faults.folder}
            disabled={disabled}
            maxLength={1024}
            spellCheck={false}
          />
        )}
      </Stack>
    </Input.Wrapper>
  );
}

/** A command for code that has an obvious beginning. */
export function suggested(top: readonly string[]): string {
  const scripts = top.filter((name) => name.endsWith(".py"));
  const main =
    ["train.py", "main.py", "run.py"].find((name) => scripts.includes(name)) ??
    (scripts.length === 1 ? scripts[0] : "");
  if (!main) return "";
  return /^[\w.-]+$/.test(main) ? `python ${main}` : `python '${main.replaceAll("'", `'\\''`)}'`;
}

function Upload({ form, change, error, disabled }: Omit<Props, "faults" | "folders"> & { error?: string }) {
  const { t } = useTranslation();
  const send = useSendCode();
  const folder = useRef<HTMLInputElement>(null);
  const files = useRef<HTMLInputElement>(null);
  const [sent, setSent] = useState<SentCode>();
  const last = useRef<{ files: File[]; project: string }>(undefined);
  function take(input: HTMLInputElement) {
    const chosen = [...(input.files ?? [])];
    input.value = ""; // the same choice again is a choice
    if (chosen.length > 0) put(chosen);
  }
  function put(chosen: File[]) {
    last.current = { files: chosen, project: form.project };
    send.mutate(last.current, {
      onSuccess: (made) => {
        setSent(made);
        const command = form.command.trim() === "" ? suggested(made.top) : "";
        change(command === "" ? { archive: made.digest } : { archive: made.digest, command });
      },
    });
  }
  // An archive is its project's: in another one it must be sent again.
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another project asks for it
  useEffect(() => {
    if (last.current && last.current.project !== form.project && form.archive !== "") put(last.current.files);
  }, [form.project]);
  const here = sent?.digest === form.archive ? sent : undefined;
  const packages = ["requirements.txt", "pyproject.toml"].find((name) => here?.top.includes(name));
  const offers = form.requirements === "" && form.image === "" && isPython(form.command) ? packages : undefined;
  return (
    <Stack gap="xs">
      <input
        ref={folder}
        type="file"
        hidden
        aria-label={t("create.chooseFolder")}
        onChange={(e) => take(e.currentTarget)}
        {...{ webkitdirectory: "" }}
      />
      <input
        ref={files}
        type="file"
        hidden
        multiple
        aria-label={t("create.chooseFiles")}
        onChange={(e) => take(e.currentTarget)}
      />
      <Group gap="xs">
        <Button
          variant="default"
          onClick={() => folder.current?.click()}
          loading={send.isPending}
          disabled={disabled}
          data-fault={error ? true : undefined}
        >
          {t("create.chooseFolder")}
        </Button>
        <Button variant="default" onClick={() => files.current?.click()} disabled={disabled || send.isPending}>
          {t("create.chooseFiles")}
        </Button>
      </Group>
      <Text size="xs" c="dimmed">
        {t("create.uploadHint")}
      </Text>
      {send.isPending && (
        <Text size="sm" role="status">
          {t("create.sending")}
        </Text>
      )}
      {send.error && <Failure error={send.error} title={t("create.notSent")} />}
      {form.archive !== "" && !send.isPending && (
        <Text size="sm" role="status" className="break">
          {here
            ? t("create.sent", { count: here.files, size: bytes(here.bytes) })
            : t("create.archiveKept", { digest: form.archive.slice(0, 19) })}
          {here && here.left.length > 0 && (
            <Text span size="sm" c="dimmed">
              {" "}
              {t("create.leftOut", { list: shortList(here.left) })}
            </Text>
          )}
        </Text>
      )}
      {offers && (
        <Alert color="blue" variant="light" p="xs" role="status">
          <Group justify="space-between" gap="xs">
            <Text size="sm">{t("create.requirements", { name: offers })}</Text>
            <Button size="compact-xs" variant="default" onClick={() => change({ requirements: offers })}>
              {t("create.requirementsAdd")}
            </Button>
          </Group>
        </Alert>
      )}
      {error && <Input.Error>{form.archive === "" ? t("create.noCode") : error}</Input.Error>}
    </Stack>
  );
}

function shortList(names: readonly string[]): string {
  const shown = names.slice(0, 5).join(", ");
  return names.length > 5 ? `${shown} … (+${names.length - 5})` : shown;
}
