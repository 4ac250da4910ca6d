import { Button, Code, CopyButton, Stack } from "@mantine/core";
import { useTranslation } from "react-i18next";

/** A manifest to look at and to take away. */
export function Yaml({ text }: { text: string }) {
  const { t } = useTranslation();
  return (
    <Stack gap="xs" align="flex-start">
      <CopyButton value={text}>
        {({ copied, copy }) => (
          <Button size="xs" variant="default" onClick={copy}>
            {copied ? t("task.copied") : t("task.copy")}
          </Button>
        )}
      </CopyButton>
      <Code block w="100%" tabIndex={0}>
        {text}
      </Code>
    </Stack>
  );
}
