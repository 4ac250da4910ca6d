import { ActionIcon, Button, Group, Modal, NumberInput, Stack, Tabs, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { lazy, Suspense, useCallback, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { keepSessions, maxSessions, oneMore, type Session, sessionsOf } from "../terminal/sessions";
import { Empty, Loading } from "./states";

const ShellView = lazy(() => import("./shell-view"));

/** The shells of this page in one replica, as tabs. They go on when the page is left. */
export function Shells({ path, name, offer }: { path: string; name: string; offer: string }) {
  const { t } = useTranslation();
  const [list, setList] = useState<Session[]>(() => sessionsOf(path));
  const [shown, show] = useState(() => sessionsOf(path)[0]?.id);
  const [asked, question] = useDisclosure(false);
  const hangUps = useRef(new Map<string, () => void>());
  const put = (next: Session[]) => {
    keepSessions(path, next);
    setList(next);
  };
  function add() {
    const one = oneMore(list);
    put([...list, one]);
    show(one.id);
  }
  function drop(id: string) {
    hangUps.current.get(id)?.();
    hangUps.current.delete(id);
    const next = list.filter((s) => s.id !== id);
    put(next);
    show(next.at(-1)?.id);
    question.close();
  }
  function replace(id: string) {
    const one = { ...oneMore(list), n: list.find((s) => s.id === id)?.n ?? 1 };
    put(list.map((s) => (s.id === id ? one : s)));
    show(one.id);
  }
  const current = list.find((s) => s.id === shown) ?? list[0];
  const onLine = useCallback((id: string, hangUp: (() => void) | undefined) => {
    if (hangUp) hangUps.current.set(id, hangUp);
    else hangUps.current.delete(id);
  }, []);
  if (!current) {
    return (
      <Empty text={offer}>
        <Button onClick={add}>{t("shell.open")}</Button>
      </Empty>
    );
  }
  return (
    <Stack gap="xs">
      <Tabs value={current.id} onChange={(id) => show(id ?? undefined)} variant="pills" keepMounted={false}>
        <Group gap="xs" justify="space-between" wrap="nowrap" mb="xs">
          <Group gap={4} wrap="nowrap" miw={0}>
            <Tabs.List style={{ flexWrap: "nowrap", overflowX: "auto" }} aria-label={t("shell.tabs")}>
              {list.map((s) => (
                <Tabs.Tab key={s.id} value={s.id} size="xs" py={6}>
                  {t("shell.tab", { n: s.n })}
                </Tabs.Tab>
              ))}
            </Tabs.List>
            <ActionIcon
              variant="subtle"
              onClick={add}
              disabled={list.length >= maxSessions}
              aria-label={t("shell.open")}
              title={t("shell.open")}
            >
              +
            </ActionIcon>
          </Group>
          <Button
            size="compact-sm"
            variant="default"
            style={{ flexShrink: 0 }}
            onClick={() => (hangUps.current.has(current.id) ? question.open() : drop(current.id))}
          >
            {t("shell.close")}
          </Button>
        </Group>
        {list.map((s) => (
          <Tabs.Panel key={s.id} value={s.id}>
            <Suspense fallback={<Loading rows={12} />}>
              <One path={path} session={s.id} label={t("shell.label", { name })} onLine={onLine} another={replace} />
            </Suspense>
          </Tabs.Panel>
        ))}
      </Tabs>
      <Text size="xs" c="dimmed">
        {t("shell.hint")}
      </Text>
      <Modal
        opened={asked}
        onClose={question.close}
        title={t("shell.closeTitle")}
        centered
        closeButtonProps={{ "aria-label": t("task.cancel") }}
      >
        <Stack>
          <Text size="sm">{t("shell.closeText")}</Text>
          <Group justify="flex-end">
            <Button variant="default" onClick={question.close}>
              {t("task.cancel")}
            </Button>
            <Button color="red.9" onClick={() => drop(current.id)}>
              {t("shell.closeConfirm")}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </Stack>
  );
}

/** One of them; its name goes with what it says. */
function One(props: {
  path: string;
  session: string;
  label: string;
  onLine: (id: string, hangUp: (() => void) | undefined) => void;
  another: (id: string) => void;
}) {
  const { session, onLine } = props;
  const tell = useCallback((hangUp: (() => void) | undefined) => onLine(session, hangUp), [session, onLine]);
  return (
    <ShellView
      path={props.path}
      session={session}
      label={props.label}
      onLine={tell}
      another={() => props.another(session)}
    />
  );
}

/** The shells beside a rank of a running task. */
export default function TaskShells({ id, name, ranks }: { id: string; name: string; ranks: number }) {
  const { t } = useTranslation();
  const [rank, setRank] = useState(0);
  const path = `training-tasks/${encodeURIComponent(id)}/terminal?rank=${rank}`;
  return (
    <Stack gap="sm">
      {ranks > 1 && (
        <NumberInput
          label={t("shell.rank")}
          description={t("shell.rankHint", { last: ranks - 1 })}
          value={rank}
          onChange={(v) => typeof v === "number" && Number.isSafeInteger(v) && v >= 0 && setRank(v)}
          min={0}
          allowDecimal={false}
          w={220}
        />
      )}
      <Shells key={path} path={path} name={name} offer={t("shell.offerTask")} />
    </Stack>
  );
}
