import { Alert, Badge, Button, Code, Group, List, Stack, Table, Tabs, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { useTranslation } from "react-i18next";
import { between, crossingWords } from "../apart";
import type { Task as TaskObject } from "../api/client";
import {
  useDownload,
  useLog,
  useOutputs,
  useReplicas,
  useTask,
  useTaskEvents,
  useWhoami,
  useWhy,
  useZoneMatrix,
} from "../api/queries";
import { bytes, duration, moment, ran, ranksOf, said, title, wish } from "../format";
import { plain } from "../log";
import { paceWords } from "../pace";
import { RunAgain } from "../parts/again";
import { PageHead } from "../parts/head";
import { AnchorLink } from "../parts/link";
import { LogView } from "../parts/log-view";
import { useLanguage, useNow } from "../parts/now";
import { PhaseBadge } from "../parts/phase";
import { Empty, Failure, LiveLight, Loading, Panel, View } from "../parts/states";
import { Stop } from "../parts/stop";
import { Wish } from "../parts/task-row";
import { EventList } from "../parts/work-row";
import { Yaml } from "../parts/yaml";

const Checkpoints = lazy(() => import("../parts/checkpoints"));
const Curves = lazy(() => import("../parts/curves"));
const Manifest = lazy(() => import("../parts/manifest"));
const Recovery = lazy(() => import("../parts/recovery"));
const Shells = lazy(() => import("../parts/shells"));
const Use = lazy(() => import("../parts/use"));
const route = getRouteApi("/tasks/$name");

export function TaskPage() {
  const { name } = route.useParams();
  const read = useTask(name);
  return (
    <View read={read} rows={10}>
      {(task) => <Ready key={task.metadata.id} name={name} task={task} live={<LiveLight state={read.live} />} />}
    </View>
  );
}

function Ready({ name, task, live }: { name: string; task: TaskObject; live: React.ReactNode }) {
  const { t } = useTranslation();
  const now = useNow();
  const lang = useLanguage();
  const who = useWhoami().data;
  const running =
    task.status?.phase === "Running" && !task.spec.stop && (who?.role === "admin" || who?.user === task.metadata.owner);
  return (
    <Stack>
      <PageHead
        title={title(task)}
        badge={<PhaseBadge phase={task.status?.phase} />}
        live={live}
        about={
          <>
            {task.metadata.name} · <Wish task={task} />
            {task.status?.zones && ` · ${task.status.zones.join(", ")}`}
            {task.metadata.owner && ` · ${task.metadata.owner}`}
          </>
        }
      >
        <Stop name={name} task={task} />
        <RunAgain task={task} />
      </PageHead>
      <Why name={name} task={task} />
      <Panel title={t("task.timeline")}>
        <Timeline task={task} now={now} />
      </Panel>
      <Tabs defaultValue="log" keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="log">{t("task.log")}</Tabs.Tab>
          <Tabs.Tab value="events">{t("task.events")}</Tabs.Tab>
          <Tabs.Tab value="outputs">{t("task.outputs")}</Tabs.Tab>
          <Tabs.Tab value="replicas">{t("task.replicas")}</Tabs.Tab>
          <Tabs.Tab value="curves">{t("curves.tab")}</Tabs.Tab>
          <Tabs.Tab value="use">{t("use.tab")}</Tabs.Tab>
          <Tabs.Tab value="checkpoints">{t("checkpoints.tab")}</Tabs.Tab>
          <Tabs.Tab value="recovery">{t("recovery.tab")}</Tabs.Tab>
          {running && <Tabs.Tab value="terminal">{t("shell.title")}</Tabs.Tab>}
          <Tabs.Tab value="yaml">{t("task.yaml")}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="log">
          <Log name={name} prefix={wish(task).replicas > 1} />
        </Tabs.Panel>
        <Tabs.Panel value="events">
          <Events name={name} />
        </Tabs.Panel>
        <Tabs.Panel value="outputs">
          <Outputs name={name} />
        </Tabs.Panel>
        <Tabs.Panel value="replicas">
          <Replicas name={name} />
        </Tabs.Panel>
        <Tabs.Panel value="curves">
          <Suspense fallback={<Loading />}>
            <Curves name={name} task={task} />
          </Suspense>
        </Tabs.Panel>
        <Tabs.Panel value="use">
          <Suspense fallback={<Loading />}>
            <Use task={task} lang={lang} />
          </Suspense>
        </Tabs.Panel>
        <Tabs.Panel value="checkpoints">
          <Suspense fallback={<Loading />}>
            <Checkpoints name={name} task={task} lang={lang} />
          </Suspense>
        </Tabs.Panel>
        <Tabs.Panel value="recovery">
          <Suspense fallback={<Loading />}>
            <Recovery task={task} now={now} lang={lang} />
          </Suspense>
        </Tabs.Panel>
        {running && (
          <Tabs.Panel value="terminal">
            <Suspense fallback={<Loading />}>
              <Shells id={name} name={title(task)} ranks={ranksOf(task)} />
            </Suspense>
          </Tabs.Panel>
        )}
        <Tabs.Panel value="yaml">
          <Suspense fallback={<Loading />}>
            <Manifest task={task}>{(text) => <Yaml text={text} />}</Manifest>
          </Suspense>
        </Tabs.Panel>
      </Tabs>
    </Stack>
  );
}

export function Timeline({ task, now }: { task: TaskObject; now: number }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const s = task.status;
  const steps = [
    { word: t("task.created"), at: task.metadata.createdAt },
    { word: t("task.placed"), at: s?.placedAt },
    { word: t("task.started"), at: s?.startedAt },
    { word: t("task.finished"), at: s?.finishedAt },
  ];
  const time = ran(task, now);
  return (
    <Stack gap="xs">
      <ol className="timeline">
        {steps.map(({ word, at }) => (
          <li key={word} className={at ? "done" : undefined}>
            <Text size="sm" fw={500}>
              {word}
            </Text>
            <Text size="xs" c="dimmed">
              {at ? moment(at, lang) : t("task.notYet")}
            </Text>
          </li>
        ))}
      </ol>
      <Crossings task={task} />
      {s?.pace && (
        <Text size="sm" c="dimmed">
          {paceWords(s.pace, t)}
        </Text>
      )}
      <Group gap="md">
        {Number.isFinite(time) && (
          <Text size="sm" c="dimmed">
            {t("tasks.duration")}: {duration(time, t)}
          </Text>
        )}
        {(s?.attempt ?? 0) > 1 && (
          <Badge variant="light" color="orange" tt="none">
            {t("task.attempt", { n: s?.attempt ?? 0 })}
          </Badge>
        )}
      </Group>
    </Stack>
  );
}

/** That a task runs in several zones, and what that costs it. */
function Crossings({ task }: { task: TaskObject }) {
  const { t } = useTranslation();
  const list = task.status?.preflight?.crossings ?? [];
  const matrix = useZoneMatrix(list.length > 0);
  return list.map((c) => (
    <Text key={`${c.from} ${c.to}`} size="sm" className="break">
      <b>{t("task.crosses")}</b> {crossingWords(c, between(matrix.data ?? [], c.from, c.to), t)}
    </Text>
  ));
}

/** A sentence without the line that stands above it already. */
export function unsaid(text: string, line: string): string {
  if (line === "" || !text.startsWith(line)) return text;
  return text.slice(line.length).replace(/^[\s—–:：-]+/, "") || text;
}

/**
 * Why the task is where it is: the explanation while it lives, its first failure afterwards. The line of the
 * log that decided leads: it is what people look for.
 */
function Why({ name, task }: { name: string; task: TaskObject }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const why = useWhy(name);
  const { failure, phase } = task.status ?? {};
  if (phase === "Completed" || phase === "Running") return null;
  if (!why.data)
    return why.error ? <Failure error={why.error} retry={() => void why.refetch()} /> : <Loading rows={2} />;
  const { message, evidence, action, estimatedStart, reason } = why.data;
  const line = plain(failure?.line ?? "").trim();
  const advice = said(failure?.advice, lang);
  const help = said(action, lang);
  // What leads is not said twice.
  const rest = (evidence ?? []).map((e) => said(e, lang)).filter((e) => line === "" || !e.includes(line));
  return (
    <Alert color={phase === "Failed" ? "red" : "yellow"} variant="light" title={`${t("task.why")} · ${reason}`}>
      <Stack gap={6}>
        {line !== "" && (
          <Code block className="decided" aria-label={t("task.decided")} tabIndex={0}>
            {line}
          </Code>
        )}
        <Text size="sm" className="break">
          {unsaid(said(message, lang), line)}
        </Text>
        {advice !== "" && advice !== help && (
          <Text size="sm" className="break">
            {advice}
          </Text>
        )}
        {failure && (
          <Text size="sm" c="dimmed" className="break">
            {t("task.failure", { replica: failure.replica, node: failure.node })} · {t("task.exit")} {failure.exitCode}
          </Text>
        )}
        {rest.length > 0 && (
          <List size="sm">
            {rest.map((text) => (
              <List.Item key={text} className="break">
                {text}
              </List.Item>
            ))}
          </List>
        )}
        {help !== "" && (
          <Text size="sm" className="break">
            <b>{t("task.action")}</b> {help}
          </Text>
        )}
        {estimatedStart && <Text size="sm">{t("task.estimated", { time: moment(estimatedStart, lang) })}</Text>}
      </Stack>
    </Alert>
  );
}

function Log({ name, prefix }: { name: string; prefix: boolean }) {
  const log = useLog(name);
  return <LogView {...log} prefix={prefix} />;
}

function Events({ name }: { name: string }) {
  return <EventList read={useTaskEvents(name)} />;
}

function Outputs({ name }: { name: string }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const read = useOutputs(name);
  const download = useDownload(name);
  return (
    <View read={read} empty={(d) => d.length === 0} whenEmpty={<Empty text={t("task.outputsEmpty")} />}>
      {(files) => (
        <Stack gap="xs">
          {download.error && <Failure error={download.error} />}
          <Table.ScrollContainer minWidth={520}>
            <Table>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{t("task.path")}</Table.Th>
                  <Table.Th>{t("task.size")}</Table.Th>
                  <Table.Th>{t("task.modified")}</Table.Th>
                  <Table.Th>{t("task.download")}</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {files.map((f) => (
                  <Table.Tr key={f.path}>
                    <Table.Td className="break">{f.path}</Table.Td>
                    <Table.Td>{bytes(f.size)}</Table.Td>
                    <Table.Td>{moment(f.modified, lang)}</Table.Td>
                    <Table.Td>
                      <Button
                        size="compact-xs"
                        variant="default"
                        aria-label={t("task.downloadLabel", { path: f.path })}
                        onClick={() => download.mutate(f.path)}
                      >
                        {t("task.download")}
                      </Button>
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </Stack>
      )}
    </View>
  );
}

const states = ["Created", "Running", "Exited", "Done"] as const;
const isState = (word: string): word is (typeof states)[number] => states.some((s) => s === word);

function Replicas({ name }: { name: string }) {
  const { t } = useTranslation();
  const read = useReplicas(name);
  return (
    <View read={read} empty={(d) => d.length === 0} whenEmpty={<Empty text={t("task.replicasEmpty")} />}>
      {(replicas) => (
        <Table.ScrollContainer minWidth={520}>
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("task.replicas")}</Table.Th>
                <Table.Th>{t("task.state")}</Table.Th>
                <Table.Th>{t("task.node")}</Table.Th>
                <Table.Th>{t("task.exit")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {replicas.map((r) => (
                <Table.Tr key={r.name}>
                  <Table.Td>
                    {r.role}-{r.index}{" "}
                    <Text span size="xs" c="dimmed">
                      {t("task.attempt", { n: r.attempt })}
                    </Text>
                  </Table.Td>
                  <Table.Td className="break">
                    {r.spare ? t("task.spare") : isState(r.state) ? t(`task.replica.${r.state}`) : r.state} {r.message}
                    {r.state === "Running" && !r.attached && (
                      <Badge color="orange" variant="light" tt="none" title={t("task.silentHint")}>
                        {t("task.silent")}
                      </Badge>
                    )}
                  </Table.Td>
                  <Table.Td>
                    {r.node ? (
                      <AnchorLink to="/nodes/$name" params={{ name: r.node }} size="sm">
                        {r.node}
                      </AnchorLink>
                    ) : (
                      "—"
                    )}
                  </Table.Td>
                  <Table.Td>{r.signal || (r.exitCode ?? "—")}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </View>
  );
}
