import { Group, Stack, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

/** The head of a page about one thing: its name and state, what it is in a line, and at the right what can be done with it. */
export function PageHead(props: {
  title: string;
  badge: ReactNode;
  live: ReactNode;
  about: ReactNode;
  description?: string;
  children: ReactNode;
}) {
  return (
    <Group justify="space-between" align="flex-start" className="page-head">
      <Stack gap={4} miw={0} flex="1 1 320px">
        <Group gap="sm">
          <Title order={1} size="h3" className="break">
            {props.title}
          </Title>
          {props.badge}
          {props.live}
        </Group>
        <Text size="sm" c="dimmed" className="break">
          {props.about}
        </Text>
        {props.description && (
          <Text size="sm" className="break">
            {props.description}
          </Text>
        )}
      </Stack>
      {props.children}
    </Group>
  );
}
