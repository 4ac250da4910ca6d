import { Button, Code, CopyButton, Group, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";

/** Text to be copied, with what it is. */
export function Snippet({ label, text }: { label: string; text: string }) {
  const { t } = useTranslation();
  return (
    <div>
      <Group justify="space-between" mb={4}>
        <Text size="sm" fw={500}>
          {label}
        </Text>
        <CopyButton value={text}>
          {({ copied, copy }) => (
            <Button size="compact-xs" variant="default" onClick={copy} aria-label={t("svc.copyOf", { name: label })}>
              {copied ? t("task.copied") : t("task.copy")}
            </Button>
          )}
        </CopyButton>
      </Group>
      <Code block tabIndex={0} style={{ overflowX: "auto" }}>
        {text}
      </Code>
    </div>
  );
}
