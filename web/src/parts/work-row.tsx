import { Alert, Badge, Button, Group, List, Modal, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type { Schemas } from "../api/client";
import { moment, said } from "../format";
import { useLanguage } from "./now";
import { Empty, Failure, View } from "./states";

interface Read<T> {
  data: T | undefined;
  error: Error | null;
  refetch: () => unknown;
}

/** What happened to something, the newest first. */
export function EventList({ read }: { read: Read<Schemas["Event"][]> }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  return (
    <View read={read} empty={(d) => d.length === 0} whenEmpty={<Empty text={t("task.eventsEmpty")} />}>
      {(events) => (
        <Stack gap="xs">
          {events.map((e) => (
            <Group key={e.seq} gap="sm" align="flex-start" wrap="nowrap">
              <Text size="xs" c="dimmed" w={130} style={{ flexShrink: 0 }} pt={2}>
                {moment(e.time, lang)}
              </Text>
              <Badge
                color={e.type === "Warning" ? "orange" : "gray"}
                variant="light"
                tt="none"
                style={{ flexShrink: 0 }}
              >
                {e.reason}
              </Badge>
              <Text size="sm" className="break">
                {said(e.message, lang)}
              </Text>
            </Group>
          ))}
        </Stack>
      )}
    </View>
  );
}

/** Why something is where it is: the one reason, what was looked at, and what would help. */
export function WhyBox({ read, bad }: { read: Read<Schemas["Explanation"]>; bad: boolean }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  if (!read.data) return read.error ? <Failure error={read.error} retry={() => void read.refetch()} /> : null;
  const { message, evidence, action, estimatedStart, reason } = read.data;
  const text = said(message, lang);
  const help = said(action, lang);
  const rest = (evidence ?? []).map((e) => said(e, lang)).filter((e) => e !== text);
  return (
    <Alert color={bad ? "red" : "yellow"} variant="light" title={`${t("task.why")} · ${reason}`}>
      <Stack gap={6}>
        <Text size="sm" className="break">
          {text}
        </Text>
        {rest.length > 0 && (
          <List size="sm">
            {rest.map((e) => (
              <List.Item key={e} className="break">
                {e}
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

/** A button that asks before it does something that can't be undone. */
export function Ask(props: {
  word: string;
  title: string;
  confirm: string;
  children: ReactNode;
  act: (done: () => void) => void;
  pending: boolean;
  error: Error | null;
  disabled?: boolean;
  color?: string;
  variant?: string;
  size?: string;
  /** Called when it is opened. */
  onOpen?: () => void;
}) {
  const { t } = useTranslation();
  const [open, dialog] = useDisclosure(false);
  return (
    <>
      <Button
        color={props.color ?? "red.9"}
        variant={props.variant}
        size={props.size}
        disabled={props.disabled}
        onClick={() => {
          props.onOpen?.();
          dialog.open();
        }}
        style={{ flexShrink: 0 }}
      >
        {props.word}
      </Button>
      <Modal
        opened={open}
        onClose={dialog.close}
        title={props.title}
        centered
        size="lg"
        closeButtonProps={{ "aria-label": t("task.cancel") }}
      >
        <Stack>
          {props.children}
          {props.error && <Failure error={props.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={dialog.close}>
              {t("task.cancel")}
            </Button>
            <Button color={props.color ?? "red.9"} loading={props.pending} onClick={() => props.act(dialog.close)}>
              {props.confirm}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}

/** Names and values beside each other. */
export function Facts({ list }: { list: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="facts">
      {list.map(([word, value]) => (
        <div key={word}>
          <dt>{word}</dt>
          <dd className="break">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
