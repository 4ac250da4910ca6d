import { Button, Group, Stack, Table, Text, Textarea, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { useAddSshKey, useRemoveSshKey, useSshKeys } from "../api/account";
import { moment } from "../format";
import { useLanguage } from "./now";
import { Empty, Failure, Panel, View } from "./states";
import { Ask } from "./work-row";

/** The public keys that open one's environments over SSH. */
export function SshKeys({ user }: { user: string }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const read = useSshKeys(user);
  const add = useAddSshKey(user);
  const remove = useRemoveSshKey(user);
  const [key, setKey] = useState("");
  const [name, setName] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const body = { key: key.trim(), ...(name.trim() === "" ? {} : { name: name.trim() }) };
    add.mutate(body, {
      onSuccess: () => {
        setKey("");
        setName("");
      },
    });
  };
  return (
    <Panel title={t("keys.title")}>
      <Stack>
        <Text size="sm">{t("keys.text")}</Text>
        <View read={read} empty={(d) => d.length === 0} whenEmpty={<Empty text={t("keys.empty")} />}>
          {(list) => (
            <Table.ScrollContainer minWidth={480}>
              <Table>
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>{t("keys.name")}</Table.Th>
                    <Table.Th>{t("keys.fingerprint")}</Table.Th>
                    <Table.Th>{t("keys.added")}</Table.Th>
                    <Table.Th>{t("checkpoints.actions")}</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {list.map((k) => (
                    <Table.Tr key={k.id}>
                      <Table.Td className="break">{k.name ?? k.id}</Table.Td>
                      <Table.Td className="break">
                        <code>{k.fingerprint}</code>
                      </Table.Td>
                      <Table.Td>{moment(k.addedAt, lang)}</Table.Td>
                      <Table.Td>
                        <Ask
                          word={t("keys.remove")}
                          size="compact-xs"
                          variant="default"
                          color="gray"
                          title={t("keys.removeTitle", { name: k.name ?? k.id })}
                          confirm={t("keys.remove")}
                          pending={remove.isPending}
                          error={remove.error}
                          act={(done) => remove.mutate(k.id, { onSuccess: done })}
                        >
                          <Text size="sm">{t("keys.removeText")}</Text>
                        </Ask>
                      </Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          )}
        </View>
        <form onSubmit={submit}>
          <Stack gap="sm">
            <Textarea
              label={t("keys.key")}
              description={t("keys.keyHint")}
              placeholder="ssh-ed25519 AAAA… me@laptop"
              value={key}
              onChange={(e) => setKey(e.currentTarget.value)}
              autosize
              minRows={2}
              maxRows={6}
              maxLength={16384}
              spellCheck={false}
            />
            <Group align="flex-end" gap="sm">
              <TextInput
                label={t("keys.name")}
                placeholder={t("keys.nameHint")}
                value={name}
                onChange={(e) => setName(e.currentTarget.value)}
                maxLength={64}
                flex="1 1 200px"
              />
              <Button type="submit" loading={add.isPending} disabled={key.trim() === ""}>
                {t("keys.add")}
              </Button>
            </Group>
            {add.error && <Failure error={add.error} title={t("keys.notAdded")} />}
          </Stack>
        </form>
      </Stack>
    </Panel>
  );
}
