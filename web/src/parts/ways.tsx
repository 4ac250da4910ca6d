// The ways into an environment: pages of its programs, SSH, the command line.
import { Anchor, Button, Code, CopyButton, Group, Stack, Table, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { openPort, readPorts, readSSH } from "../api/ways";
import type { Environment } from "../api/works";
import { Failure, Panel, View } from "./states";

/** What a page is called by people. */
function pageName(name: string | undefined, port: number): string {
  if (name === "jupyter") return "JupyterLab";
  if (name === "vscode") return "VS Code";
  return name ?? String(port);
}

export function WaysIn({ name, env, running }: { name: string; env: Environment; running: boolean }) {
  const { t } = useTranslation();
  const ports = useQuery({
    queryKey: ["work", "dev-environments", name, "ports", env.metadata.revision ?? 0],
    queryFn: () => readPorts(name),
  });
  const ssh = useQuery({ queryKey: ["ssh"], queryFn: readSSH, staleTime: 60_000 });
  return (
    <Stack gap="md">
      <Panel title={t("ways.pages")}>
        <View read={ports} rows={2}>
          {(list) => <Pages name={name} list={list} running={running} />}
        </View>
      </Panel>
      <Panel title={t("ways.ssh")}>
        <View read={ssh} rows={2}>
          {(at) => (at.port ? <SSH env={env} port={at.port} /> : <Text size="sm">{t("ways.noSSH")}</Text>)}
        </View>
      </Panel>
      <Panel title={t("ways.cli")}>
        <Stack gap="xs">
          <Line text={`fermi env shell ${env.metadata.name ?? ""}`} />
          <Line text={`fermi cp -- . ${env.metadata.name ?? ""}:work`} />
          <Line text={`fermi forward ${env.metadata.name ?? ""} 8080:8080`} />
        </Stack>
      </Panel>
    </Stack>
  );
}

function Pages({
  name,
  list,
  running,
}: {
  name: string;
  list: readonly { port: number; name?: string; url?: string }[];
  running: boolean;
}) {
  const { t } = useTranslation();
  const [failed, setFailed] = useState<Error>();
  const open = useMutation({ mutationFn: (port: number) => openPort(name, port) });
  function go(port: number) {
    // Opened before the answer is there: afterwards a browser would take it for a page that nobody asked for.
    const tab = window.open("about:blank", "_blank");
    if (tab) tab.opener = null;
    setFailed(undefined);
    open.mutate(port, {
      onSuccess: (url) => {
        if (tab) tab.location.replace(url);
        else window.location.assign(url);
      },
      onError: (error) => {
        tab?.close();
        setFailed(error);
      },
    });
  }
  if (list.length === 0) return <Text size="sm">{t("ways.noPages")}</Text>;
  return (
    <Stack gap="sm">
      {failed && <Failure error={failed} />}
      <Table.ScrollContainer minWidth={420}>
        <Table verticalSpacing={6}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("ways.page")}</Table.Th>
              <Table.Th>{t("ways.port")}</Table.Th>
              <Table.Th>{t("ways.address")}</Table.Th>
              <Table.Th />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {list.map((p) => (
              <Table.Tr key={p.port}>
                <Table.Td>{pageName(p.name, p.port)}</Table.Td>
                <Table.Td>{p.port}</Table.Td>
                <Table.Td>
                  <Text size="xs" c="dimmed" className="break">
                    {p.url || t("ways.noHost")}
                  </Text>
                </Table.Td>
                <Table.Td align="right">
                  <Button
                    size="compact-sm"
                    variant="default"
                    onClick={() => go(p.port)}
                    disabled={!running || !p.url}
                    loading={open.isPending && open.variables === p.port}
                    aria-label={t("ways.openOf", { name: pageName(p.name, p.port) })}
                  >
                    {t("ways.open")}
                  </Button>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {!running && (
        <Text size="xs" c="dimmed">
          {t("ways.notRunning")}
        </Text>
      )}
    </Stack>
  );
}

function SSH({ env, port }: { env: Environment; port: number }) {
  const { t } = useTranslation();
  const host = window.location.hostname;
  const user = `${env.metadata.name ?? ""}.${env.metadata.project ?? "default"}`;
  const alias = `${user}.fermi`;
  return (
    <Stack gap="xs">
      <Line text={`ssh -p ${port} ${user}@${host}`} />
      <Line text={`scp -P ${port} data.csv ${user}@${host}:`} />
      <Text size="sm">{t("ways.config")}</Text>
      <Line text="fermi env ssh-config --write" />
      <Group gap="md">
        <Anchor size="sm" href={`vscode://vscode-remote/ssh-remote+${alias}/`}>
          {t("ways.desktop")}
        </Anchor>
      </Group>
      <Text size="xs" c="dimmed">
        {t("ways.key")}
      </Text>
      <Line text="fermi user key add ~/.ssh/id_ed25519.pub" />
    </Stack>
  );
}

function Line({ text }: { text: string }) {
  const { t } = useTranslation();
  return (
    <Group gap="xs" wrap="nowrap" align="center">
      <Code style={{ flex: "1 1 auto", overflowX: "auto", whiteSpace: "pre", padding: "6px 8px" }} tabIndex={0}>
        {text}
      </Code>
      <CopyButton value={text}>
        {({ copied, copy }) => (
          <Button size="compact-xs" variant="default" onClick={copy} aria-label={t("svc.copyOf", { name: text })}>
            {copied ? t("task.copied") : t("task.copy")}
          </Button>
        )}
      </CopyButton>
    </Group>
  );
}
