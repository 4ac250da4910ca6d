import { Stack, Text } from "@mantine/core";
import type { Figure } from "../use";

/** A number with its name, and what to hold it against. */
export function FigureView({ word, value, note, bad }: Figure) {
  return (
    <Stack gap={0}>
      <Text size="sm" c="dimmed">
        {word}
      </Text>
      <Text size="xl" fw={600} c={bad ? "var(--mantine-color-error)" : undefined}>
        {value}
      </Text>
      {note && (
        <Text size="xs" c="dimmed" className="break">
          {note}
        </Text>
      )}
    </Stack>
  );
}
