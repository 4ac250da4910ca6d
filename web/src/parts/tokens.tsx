import { Alert, Button, Group, NumberInput, Select, Stack, Table, Text, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { type Scope, useMakeToken, useRevokeToken, useTokens } from "../api/account";
import { moment, title } from "../format";
import { useLanguage } from "./now";
import { Snippet } from "./snippet";
import { Empty, Failure, Panel, View } from "./states";
import { Ask } from "./work-row";

const usualDays = 90;
const scopes: readonly Scope[] = ["read", "tasks", "admin"];

/** Tokens with which programs and the command line speak for one. */
export function Tokens({ user }: { user: string }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const read = useTokens(user);
  const make = useMakeToken();
  const revoke = useRevokeToken();
  const [name, setName] = useState("");
  const [days, setDays] = useState<number | string>(usualDays);
  const [scope, setScope] = useState<Scope>("tasks");
  const word = (s: Scope) => t(`tokens.${s}`);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (typeof days !== "number") return;
    make.mutate({ name: name.trim(), days, scope }, { onSuccess: () => setName("") });
  };
  return (
    <Panel title={t("tokens.title")}>
      <Stack>
        <Text size="sm">{t("tokens.text")}</Text>
        <View read={read} empty={(d) => d.length === 0} whenEmpty={<Empty text={t("tokens.empty")} />}>
          {(list) => (
            <Table.ScrollContainer minWidth={480}>
              <Table>
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>{t("keys.name")}</Table.Th>
                    <Table.Th>{t("tokens.scope")}</Table.Th>
                    <Table.Th>{t("account.until")}</Table.Th>
                    <Table.Th>{t("checkpoints.actions")}</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {list.map((k) => (
                    <Table.Tr key={k.metadata.id}>
                      <Table.Td className="break">{title(k)}</Table.Td>
                      <Table.Td>{word(k.spec?.scope ?? "admin")}</Table.Td>
                      <Table.Td>{k.spec?.expiresAt ? moment(k.spec.expiresAt, lang) : t("account.never")}</Table.Td>
                      <Table.Td>
                        <Ask
                          word={t("svc.keyRevoke")}
                          size="compact-xs"
                          variant="default"
                          color="gray"
                          title={t("tokens.revokeTitle", { name: title(k) })}
                          confirm={t("svc.keyRevoke")}
                          pending={revoke.isPending}
                          error={revoke.error}
                          act={(done) => revoke.mutate(k.metadata.name ?? "", { onSuccess: done })}
                        >
                          <Text size="sm">{t("tokens.revokeText")}</Text>
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
          <Group align="flex-end" gap="sm">
            <TextInput
              label={t("keys.name")}
              value={name}
              onChange={(e) => setName(e.currentTarget.value)}
              maxLength={64}
              flex="1 1 160px"
            />
            <Select
              label={t("tokens.scope")}
              data={scopes.map((value) => ({ value, label: word(value) }))}
              value={scope}
              onChange={(s) => setScope(scopes.find((x) => x === s) ?? "tasks")}
              allowDeselect={false}
              flex="1 1 200px"
            />
            <NumberInput
              label={t("svc.keyDays")}
              value={days}
              onChange={setDays}
              min={1}
              max={3650}
              allowDecimal={false}
              w={130}
            />
            <Button type="submit" loading={make.isPending} disabled={name.trim() === "" || typeof days !== "number"}>
              {t("tokens.make")}
            </Button>
          </Group>
        </form>
        {make.error && <Failure error={make.error} title={t("tokens.notMade")} />}
        {make.data && (
          <Alert color="green" variant="light" title={t("tokens.made")} role="status">
            <Snippet label={t("tokens.once")} text={make.data} />
          </Alert>
        )}
      </Stack>
    </Panel>
  );
}
