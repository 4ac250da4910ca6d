import {
  ActionIcon,
  Badge,
  Button,
  Group,
  Modal,
  PasswordInput,
  Select,
  Stack,
  Table,
  Text,
  Textarea,
  TextInput,
} from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Secret, useDropSecret, useSetSecret } from "../api/account";
import { Refused } from "../api/client";
import { useProjects, useSecrets } from "../api/queries";
import { moment, title } from "../format";
import { usualProject } from "../project";
import { missing, type SecretType, secretFields, secretTypes, typed } from "../secret";
import { useLanguage } from "./now";
import { Empty, Failure, Panel, View } from "./states";
import { Ask } from "./work-row";

/** The secrets of a project: their keys, never a value. */
export function Secrets() {
  const { t } = useTranslation();
  const lang = useLanguage();
  const projects = useProjects();
  const [chosen, choose] = useState("");
  const [form, setForm] = useState<Secret | "new">();
  const names = (projects.data?.items ?? []).map((p) => p.metadata.name ?? "");
  const project = chosen || usualProject(names);
  const read = useSecrets(project);
  const drop = useDropSecret(project);
  return (
    <Panel
      title={t("secrets.title")}
      right={
        <Button size="compact-sm" disabled={project === ""} onClick={() => setForm("new")}>
          {t("secrets.new")}
        </Button>
      }
    >
      <Stack>
        <Text size="sm">{t("secrets.text")}</Text>
        {names.length > 1 && (
          <Select
            label={t("import.project")}
            data={(projects.data?.items ?? []).map((p) => ({ value: p.metadata.name ?? "", label: title(p) }))}
            value={project}
            onChange={(p) => choose(p ?? "")}
            allowDeselect={false}
            searchable
          />
        )}
        {project !== "" && (
          <View read={read} empty={(d) => d.items.length === 0} whenEmpty={<Empty text={t("secrets.empty")} />}>
            {(list) => (
              <Table.ScrollContainer minWidth={480}>
                <Table>
                  <Table.Thead>
                    <Table.Tr>
                      <Table.Th>{t("keys.name")}</Table.Th>
                      <Table.Th>{t("secrets.keys")}</Table.Th>
                      <Table.Th>{t("secrets.changed")}</Table.Th>
                      <Table.Th>{t("checkpoints.actions")}</Table.Th>
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {list.items.map((s) => (
                      <Table.Tr key={s.metadata.id}>
                        <Table.Td className="break">
                          {title(s)}{" "}
                          <Badge size="xs" variant="light" tt="none">
                            {s.spec.type ?? "opaque"}
                          </Badge>
                        </Table.Td>
                        <Table.Td className="break">{(s.status?.keys ?? []).join(", ")}</Table.Td>
                        <Table.Td>{moment(s.metadata.updatedAt, lang)}</Table.Td>
                        <Table.Td>
                          <Group gap={4} wrap="nowrap">
                            <Button size="compact-xs" variant="default" onClick={() => setForm(s)}>
                              {t("secrets.change")}
                            </Button>
                            <Ask
                              word={t("secrets.drop")}
                              size="compact-xs"
                              variant="default"
                              color="gray"
                              title={t("secrets.dropTitle", { name: title(s) })}
                              confirm={t("secrets.drop")}
                              pending={drop.isPending}
                              error={drop.error}
                              act={(done) => drop.mutate(s.metadata.name ?? "", { onSuccess: done })}
                            >
                              <Text size="sm">{t("secrets.dropText")}</Text>
                            </Ask>
                          </Group>
                        </Table.Td>
                      </Table.Tr>
                    ))}
                  </Table.Tbody>
                </Table>
              </Table.ScrollContainer>
            )}
          </View>
        )}
        {form && (
          <SecretForm
            project={project}
            old={form === "new" ? undefined : form}
            close={() => setForm(undefined)}
            key={form === "new" ? "" : form.metadata.id}
          />
        )}
      </Stack>
    </Panel>
  );
}

/** The form that makes a secret, or changes values of one. */
export function SecretForm(props: {
  project: string;
  old?: Secret;
  /** The only type that is of use here. */
  type?: SecretType;
  close: () => void;
  done?: (name: string) => void;
}) {
  const { project, old, close, done } = props;
  const { t } = useTranslation();
  const save = useSetSecret();
  const had = old?.status?.keys ?? [];
  const oldType = secretTypes.find((x) => x === old?.spec.type) ?? "opaque";
  const [name, setName] = useState(old?.metadata.name ?? "");
  const [type, setType] = useState<SecretType>(props.type ?? (old ? oldType : "opaque"));
  const [values, setValues] = useState<Record<string, string>>({});
  const [own, setOwn] = useState(had.length > 0 ? had.map((key) => [key, ""]) : [["", ""]]);
  const [tried, setTried] = useState(false);
  const data = typed(type === "opaque" ? Object.fromEntries(own.filter(([key]) => key !== "")) : values);
  const lacks = missing(type, values, had);
  const nothing = Object.keys(data).length === 0;
  const refused = save.error instanceof Refused ? save.error.fields : [];
  const at = (path: string) => refused.find((f) => f.path === path)?.message;
  const elsewhere = refused.filter(
    (f) => type === "opaque" || !(f.path === "metadata.name" || f.path.startsWith("spec.data.")),
  );
  const send = () => {
    setTried(true);
    if (name === "" || nothing || lacks.length > 0) return;
    save.mutate(
      { project, name, type, data, old },
      {
        onSuccess: () => {
          done?.(name);
          close();
        },
      },
    );
  };
  const edit = (i: number, row: string[]) => setOwn(own.map((r, j) => (i === j ? row : r)));
  return (
    <Modal
      opened
      onClose={close}
      title={old ? t("secrets.changeTitle", { name: title(old) }) : t("secrets.newTitle", { project })}
      centered
      size="lg"
      closeButtonProps={{ "aria-label": t("task.cancel") }}
    >
      <Stack gap="sm">
        {old ? (
          <Text size="sm">{t("secrets.changeText")}</Text>
        ) : (
          <>
            <TextInput
              label={t("keys.name")}
              value={name}
              onChange={(e) => setName(e.currentTarget.value)}
              error={tried && name === "" ? t("secrets.nameNeeded") : at("metadata.name")}
              maxLength={63}
              spellCheck={false}
              data-autofocus
            />
            {props.type === undefined && (
              <Select
                label={t("secrets.type")}
                data={secretTypes.map((value) => ({ value, label: t(`secrets.type.${value}`) }))}
                value={type}
                onChange={(x) => setType(secretTypes.find((s) => s === x) ?? "opaque")}
                allowDeselect={false}
              />
            )}
          </>
        )}
        {type === "opaque" ? (
          <>
            {own.map(([key = "", value = ""], i) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a row is its place
              <Group key={i} align="flex-end" gap="xs" wrap="nowrap">
                <TextInput
                  label={i === 0 ? t("secrets.key") : undefined}
                  aria-label={t("secrets.key")}
                  value={key}
                  onChange={(e) => edit(i, [e.currentTarget.value, value])}
                  maxLength={253}
                  spellCheck={false}
                  flex="1 1 140px"
                />
                <PasswordInput
                  label={i === 0 ? t("secrets.value") : undefined}
                  aria-label={t("secrets.value")}
                  value={value}
                  onChange={(e) => edit(i, [key, e.currentTarget.value])}
                  autoComplete="off"
                  flex="2 1 240px"
                />
                <ActionIcon
                  variant="default"
                  size="input-sm"
                  aria-label={t("secrets.dropRow")}
                  onClick={() => setOwn(own.filter((_, j) => j !== i))}
                >
                  ×
                </ActionIcon>
              </Group>
            ))}
            <Button
              size="compact-sm"
              variant="default"
              style={{ alignSelf: "flex-start" }}
              onClick={() => setOwn([...own, ["", ""]])}
            >
              {t("secrets.addRow")}
            </Button>
          </>
        ) : (
          secretFields[type].map((f) => {
            const given = {
              label: t(`secrets.field.${f.key}`, f.key),
              value: values[f.key] ?? "",
              withAsterisk: f.needed && !had.includes(f.key),
              placeholder: had.includes(f.key) ? t("secrets.kept") : undefined,
              error: tried && lacks.includes(f.key) ? t("secrets.needed") : at(`spec.data.${f.key}`),
              autoComplete: "off",
              spellCheck: false,
            };
            const change = (value: string) => setValues({ ...values, [f.key]: value });
            if (f.long) {
              return (
                <Textarea
                  key={f.key}
                  {...given}
                  onChange={(e) => change(e.currentTarget.value)}
                  autosize
                  minRows={2}
                  maxRows={8}
                />
              );
            }
            if (f.open) return <TextInput key={f.key} {...given} onChange={(e) => change(e.currentTarget.value)} />;
            return <PasswordInput key={f.key} {...given} onChange={(e) => change(e.currentTarget.value)} />;
          })
        )}
        {tried && nothing && lacks.length === 0 && (
          <Text size="sm" c="red.9" role="alert">
            {t("secrets.nothing")}
          </Text>
        )}
        {save.error && (elsewhere.length > 0 || refused.length === 0) && (
          <Failure error={save.error} fields={elsewhere} />
        )}
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>
            {t("task.cancel")}
          </Button>
          <Button loading={save.isPending} onClick={send}>
            {t("secrets.save")}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
