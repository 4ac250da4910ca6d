import { Alert, Button, Group, NumberInput, Stack, Table, Text, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { useKeys, useMakeKey, useRevokeKey } from "../api/gateway";
import type { Service } from "../api/works";
import { moment, title } from "../format";
import { useLanguage } from "./now";
import { Snippet } from "./snippet";
import { Empty, Failure, Panel, View } from "./states";
import { Ask } from "./work-row";

/** How programs reach the service: its address, pieces to copy, and keys. */
export default function Access({ service, may }: { service: Service; may: boolean }) {
  const { t } = useTranslation();
  const name = service.metadata.name ?? "";
  const origin = window.location.origin;
  const direct = `${origin}${service.status?.url ?? `/inference/${name}`}`;
  const sample = service.spec.template.engine === "sample";
  const question = sample ? "1.5 -0.5" : t("svc.hello");
  const plain = `curl -H "Authorization: Bearer $FERMI_TOKEN" "${direct}/${sample ? "predict?x=1.5&y=-0.5" : ""}"`;
  const curl = `curl -N ${origin}/v1/chat/completions \\
  -H "Authorization: Bearer $FERMI_TOKEN" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "${name}", "stream": true, "messages": [{"role": "user", "content": "${question}"}]}'`;
  const python = `import os
from openai import OpenAI

client = OpenAI(base_url="${origin}/v1", api_key=os.environ["FERMI_TOKEN"])
stream = client.chat.completions.create(
    model="${name}", stream=True,
    messages=[{"role": "user", "content": "${question}"}])
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="")`;
  const grpc = service.spec.protocol === "grpc";
  return (
    <Stack>
      <Panel title={t("svc.endpoint")}>
        <Stack gap="md">
          <Snippet label={t("svc.address")} text={direct} />
          {grpc ? (
            <Text size="sm">{t("svc.grpcHint")}</Text>
          ) : (
            <>
              <Snippet label="curl" text={plain} />
              <Snippet label={t("svc.curlChat")} text={curl} />
              <Snippet label={t("svc.python")} text={python} />
              <Text size="xs" c="dimmed">
                {t("svc.snippetHint")}
              </Text>
            </>
          )}
        </Stack>
      </Panel>
      {may && <Keys project={service.metadata.project ?? ""} />}
    </Stack>
  );
}

const usualDays = 90;

/** Keys that open the services of the project, and nothing else. */
function Keys({ project }: { project: string }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const read = useKeys(project);
  const make = useMakeKey(project);
  const revoke = useRevokeKey();
  const [name, setName] = useState("");
  const [days, setDays] = useState<number | string>(usualDays);
  function onSubmit(event: FormEvent) {
    event.preventDefault();
    make.mutate({ name: name.trim(), days: typeof days === "number" ? days : 0 }, { onSuccess: () => setName("") });
  }
  return (
    <Panel title={t("svc.keys")}>
      <Stack>
        <Text size="sm" c="dimmed">
          {t("svc.keysHint", { project })}
        </Text>
        <form onSubmit={onSubmit}>
          <Group align="flex-end" gap="sm">
            <TextInput
              label={t("svc.keyName")}
              value={name}
              onChange={(e) => setName(e.currentTarget.value)}
              maxLength={64}
              flex="1 1 200px"
            />
            <NumberInput
              label={t("svc.keyDays")}
              value={days}
              onChange={setDays}
              min={1}
              max={3650}
              allowDecimal={false}
              w={150}
            />
            <Button type="submit" loading={make.isPending} disabled={name.trim() === "" || typeof days !== "number"}>
              {t("svc.keyMake")}
            </Button>
          </Group>
        </form>
        {make.error && <Failure error={make.error} title={t("svc.keyNotMade")} />}
        {make.data && (
          <Alert color="green" variant="light" title={t("svc.keyMade")} role="status">
            <Snippet label={t("svc.keyOnce")} text={make.data} />
          </Alert>
        )}
        {revoke.error && <Failure error={revoke.error} />}
        <View read={read} empty={(d) => d.length === 0} whenEmpty={<Empty text={t("svc.keysEmpty")} />}>
          {(list) => (
            <Table.ScrollContainer minWidth={480}>
              <Table>
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>{t("svc.keyName")}</Table.Th>
                    <Table.Th>{t("tasks.owner")}</Table.Th>
                    <Table.Th>{t("task.created")}</Table.Th>
                    <Table.Th>{t("account.until")}</Table.Th>
                    <Table.Th>{t("checkpoints.actions")}</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {list.map((k) => (
                    <Table.Tr key={k.metadata.id}>
                      <Table.Td className="break">{title(k)}</Table.Td>
                      <Table.Td>{k.spec?.user}</Table.Td>
                      <Table.Td>{moment(k.metadata.createdAt, lang)}</Table.Td>
                      <Table.Td>{k.spec?.expiresAt ? moment(k.spec.expiresAt, lang) : t("account.never")}</Table.Td>
                      <Table.Td>
                        <Ask
                          word={t("svc.keyRevoke")}
                          size="compact-xs"
                          variant="default"
                          title={t("svc.keyRevokeTitle", { name: title(k) })}
                          confirm={t("svc.keyRevoke")}
                          pending={revoke.isPending}
                          error={revoke.error}
                          act={(done) => revoke.mutate(k.metadata.name ?? "", { onSuccess: done })}
                        >
                          <Text size="sm">{t("svc.keyRevokeText")}</Text>
                        </Ask>
                      </Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          )}
        </View>
      </Stack>
    </Panel>
  );
}
