import { Button, Group, MultiSelect, Select, Stack, Table, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Task } from "../api/client";
import { phases, type Sort, sorts, useTaskStream, useTasks } from "../api/queries";
import { duration, moment, ran, said } from "../format";
import { Arrays } from "../parts/arrays";
import { ButtonLink } from "../parts/link";
import { Below, ListHead, ListTable, PagedList, ShortCell, Why } from "../parts/list";
import { useLanguage, useNow } from "../parts/now";
import { PhaseBadge } from "../parts/phase";
import { Spread } from "../parts/spread";
import { Empty } from "../parts/states";
import { TaskLink, Wish } from "../parts/task-row";
import { isPhase, readSearch, type Search } from "../search";

const route = getRouteApi("/tasks/");

export function Tasks() {
  const { t } = useTranslation();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const now = useNow();
  const list = useTasks({ sort: "-createdAt", ...search });
  const live = useTaskStream(list.data?.pages[0]?.revision);
  const change = (next: Partial<Search>) =>
    void navigate({ to: "/tasks", search: readSearch({ ...search, ...next }), replace: true });
  const filtered = search.search !== undefined || search.phase !== undefined;
  return (
    <Stack>
      <ListHead title={t("tasks.title")} live={live}>
        <Spread of="training" />
        <ButtonLink to="/create" size="sm">
          {t("nav.create")}
        </ButtonLink>
      </ListHead>
      <Arrays />
      <Filters search={search} change={change} />
      <PagedList
        list={list}
        rows={8}
        whenEmpty={
          <Empty text={filtered ? t("tasks.noMatch") : t("tasks.empty")}>
            {filtered ? (
              <Button size="xs" variant="default" onClick={() => void navigate({ to: "/tasks", search: {} })}>
                {t("tasks.clear")}
              </Button>
            ) : (
              <ButtonLink to="/create" size="xs" variant="light">
                {t("overview.first")}
              </ButtonLink>
            )}
          </Empty>
        }
      >
        {(items) => <TaskTable tasks={items} now={now} />}
      </PagedList>
    </Stack>
  );
}

function Filters({ search, change }: { search: Search; change: (next: Partial<Search>) => void }) {
  const { t } = useTranslation();
  const [text, setText] = useState(search.search ?? "");
  useEffect(() => setText(search.search ?? ""), [search.search]);
  const look = useDebouncedCallback((value: string) => change({ search: value }), 250);
  return (
    <Group align="flex-end">
      <TextInput
        label={t("tasks.search")}
        value={text}
        maxLength={128}
        onChange={(e) => {
          setText(e.currentTarget.value);
          look(e.currentTarget.value);
        }}
        style={{ flex: "1 1 200px" }}
      />
      <MultiSelect
        label={t("tasks.phase")}
        placeholder={search.phase ? undefined : t("tasks.allPhases")}
        data={phases.map((p) => ({ value: p, label: t(`phase.${p}`) }))}
        value={search.phase ?? []}
        onChange={(value) => change({ phase: value.filter(isPhase) })}
        style={{ flex: "1 1 240px" }}
      />
      <Select
        label={t("tasks.sort")}
        data={sorts.map((s) => ({ value: s, label: t(`tasks.sort.${s}`) }))}
        value={search.sort ?? "-createdAt"}
        onChange={(value) => change({ sort: value as Sort })}
        allowDeselect={false}
        w={170}
      />
    </Group>
  );
}

export function TaskTable({ tasks, now }: { tasks: readonly Task[]; now: number }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  return (
    <ListTable
      minWidth={760}
      columns={[
        t("tasks.name"),
        t("tasks.phase"),
        t("tasks.resources"),
        t("tasks.zone"),
        t("tasks.created"),
        t("tasks.duration"),
      ]}
    >
      {tasks.map((task) => (
        <Table.Tr key={task.metadata.id}>
          <Table.Td maw={360}>
            <TaskLink task={task} />
            <Below>{task.metadata.name}</Below>
          </Table.Td>
          <Table.Td>
            <PhaseBadge phase={task.status?.phase} />
            {task.status?.phase !== "Completed" && <Why>{said(task.status?.message, lang)}</Why>}
          </Table.Td>
          <Table.Td>
            <Wish task={task} />
          </Table.Td>
          <ShortCell>{task.status?.zones?.join(", ") || "—"}</ShortCell>
          <ShortCell>{moment(task.metadata.createdAt, lang)}</ShortCell>
          <ShortCell>{duration(ran(task, now), t)}</ShortCell>
        </Table.Tr>
      ))}
    </ListTable>
  );
}
