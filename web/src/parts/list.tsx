// What pages that list something have in common: a head, a field to search in, the list page by page, and its table.
import { Button, Card, Group, Table, Text, TextInput, Title } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type { Liveness } from "../api/live";
import { LiveLight, View } from "./states";

/** The title, whether the list is live, and at the right what can be done. */
export function ListHead({ title, live, children }: { title: string; live: Liveness; children: ReactNode }) {
  return (
    <Group justify="space-between">
      <Group>
        <Title order={1} size="h3">
          {title}
        </Title>
        <LiveLight state={live} />
      </Group>
      <Group gap="xs">{children}</Group>
    </Group>
  );
}

export function SearchField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const { t } = useTranslation();
  return (
    <TextInput
      label={t("tasks.search")}
      value={value}
      maxLength={128}
      onChange={(e) => onChange(e.currentTarget.value)}
      maw={360}
    />
  );
}

interface Pages<T> {
  data: { pages: readonly { items: readonly T[] }[] } | undefined;
  error: Error | null;
  refetch: () => unknown;
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

/** A list that comes page by page. */
export function PagedList<T>(props: {
  list: Pages<T>;
  rows?: number;
  whenEmpty: ReactNode;
  children: (items: readonly T[]) => ReactNode;
}) {
  const { list, rows = 6, whenEmpty, children } = props;
  const { t } = useTranslation();
  return (
    <>
      <Card withBorder padding={0}>
        <View read={list} rows={rows} empty={(d) => (d.pages[0]?.items.length ?? 0) === 0} whenEmpty={whenEmpty}>
          {(d) => children(d.pages.flatMap((p) => p.items))}
        </View>
      </Card>
      {list.hasNextPage && (
        <Button variant="default" onClick={() => void list.fetchNextPage()} loading={list.isFetchingNextPage}>
          {t("tasks.more")}
        </Button>
      )}
    </>
  );
}

/** A table with these columns; narrower than minWidth it scrolls. */
export function ListTable(props: { columns: readonly string[]; minWidth: number; children: ReactNode }) {
  return (
    <Table.ScrollContainer minWidth={props.minWidth}>
      <Table highlightOnHover verticalSpacing="sm" horizontalSpacing="md">
        <Table.Thead>
          <Table.Tr>
            {props.columns.map((name) => (
              <Table.Th key={name}>{name}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>{props.children}</Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** A cell of short words on one line. */
export function ShortCell({ title, children }: { title?: string; children: ReactNode }) {
  return (
    <Table.Td style={{ whiteSpace: "nowrap" }} title={title}>
      {children}
    </Table.Td>
  );
}

/** Small grey words below a name. */
export function Below({ lines = 1, children }: { lines?: number; children: ReactNode }) {
  return (
    <Text size="xs" c="dimmed" lineClamp={lines} className="break">
      {children}
    </Text>
  );
}

/** What its controller says, below the state of something that does not stand as it should. */
export function Why({ children }: { children: ReactNode }) {
  return (
    <Text size="xs" c="dimmed" lineClamp={2} maw={260} className="break">
      {children}
    </Text>
  );
}
