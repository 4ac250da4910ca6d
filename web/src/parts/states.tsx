import { Alert, Box, Button, Card, Center, Group, List, Skeleton, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Refused } from "../api/client";
import type { Liveness } from "../api/live";

/** Grey bars in the place of what is to come. */
export function Loading({ rows = 4 }: { rows?: number }) {
  const { t } = useTranslation();
  return (
    <Stack gap="xs" role="status" aria-label={t("state.loading")}>
      {Array.from({ length: rows }, (_, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows are all alike
        <Skeleton key={i} height={22} radius="sm" />
      ))}
    </Stack>
  );
}

/** What went wrong, field by field, and a way to try again. */
export function Failure(props: {
  error: Error;
  retry?: () => void;
  title?: string;
  /** Those to be listed here, where others stand at their place. */
  fields?: Refused["fields"];
}) {
  const { error, retry, title } = props;
  const { t } = useTranslation();
  const refused = error instanceof Refused ? error : undefined;
  const fields = props.fields ?? refused?.fields ?? [];
  const text = refused?.status === 0 ? t("state.offline") : error.message;
  return (
    <Alert color="red" variant="light" title={title ?? t("state.failed")} role="alert">
      <Stack gap="xs" align="flex-start">
        <Text size="sm" className="break">
          {text}
        </Text>
        {fields.length > 0 && (
          <List size="sm">
            {fields.map((f) => (
              <List.Item key={f.path + f.message} className="break">
                <b>{f.path}</b>: {f.message}
              </List.Item>
            ))}
          </List>
        )}
        {refused?.hint && (
          <Text size="sm" className="break">
            {refused.hint}
          </Text>
        )}
        {retry && (
          <Button size="xs" variant="default" onClick={retry}>
            {t("state.retry")}
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

export function Empty({ text, children }: { text: string; children?: ReactNode }) {
  return (
    <Center py="xl">
      <Stack align="center" gap="sm">
        <Text c="dimmed" size="sm" ta="center">
          {text}
        </Text>
        {children}
      </Stack>
    </Center>
  );
}

interface Read<T> {
  data: T | undefined;
  error: Error | null;
  refetch: () => unknown;
}

/** The four faces of anything read from the server: loading, error, empty, ready. */
export function View<T>(props: {
  read: Read<T>;
  empty?: (data: T) => boolean;
  whenEmpty?: ReactNode;
  rows?: number;
  children: (data: T) => ReactNode;
}) {
  const { read, empty, whenEmpty, rows, children } = props;
  if (read.data === undefined) {
    return read.error ? <Failure error={read.error} retry={() => void read.refetch()} /> : <Loading rows={rows} />;
  }
  return (
    <>
      {read.error && (
        <Box mb="sm">
          <Failure error={read.error} retry={() => void read.refetch()} />
        </Box>
      )}
      {empty?.(read.data) ? whenEmpty : children(read.data)}
    </>
  );
}

export function Panel({ title, right, children }: { title?: ReactNode; right?: ReactNode; children: ReactNode }) {
  return (
    <Card withBorder padding="md" component="section">
      {(title || right) && (
        <Group justify="space-between" mb="sm" wrap="nowrap">
          <Text component="h2" fw={600} size="md" m={0}>
            {title}
          </Text>
          {right}
        </Group>
      )}
      {children}
    </Card>
  );
}

/** The little light that says whether a page is live. */
export function LiveLight({ state }: { state: Liveness }) {
  const { t } = useTranslation();
  const live = state === "live";
  if (state === "ended" || state === "failed") return null;
  return (
    <Group gap={6} wrap="nowrap" role="status">
      <span className="dot" style={{ background: live ? "#2f9e44" : "#e8950c" }} />
      <Text size="xs" c="dimmed">
        {live ? t("state.live") : t("state.connecting")}
      </Text>
    </Group>
  );
}
