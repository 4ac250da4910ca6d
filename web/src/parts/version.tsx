// What the pages of datasets and of models have in common.
import { Select, Stack, Text, Title } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Dataset, Model, Version } from "../api/shelf";
import { title } from "../format";

/** What it is called, and below that whose it is and what it is for. */
export function ShelfHead({ of }: { of: Dataset | Model }) {
  return (
    <Stack gap={4}>
      <Title order={1} size="h3" className="break">
        {title(of)}
      </Title>
      <Text size="sm" c="dimmed" className="break">
        {[of.metadata.name, of.metadata.project, of.spec.description].filter(Boolean).join(" · ")}
      </Text>
    </Stack>
  );
}

export function VersionSelect(props: { list: readonly Version[]; chosen: number; choose: (number: number) => void }) {
  const { t } = useTranslation();
  return (
    <Select
      label={t("data.number")}
      data={props.list.map((v) => ({ value: String(v.spec.number), label: `@${v.spec.number}` }))}
      value={String(props.chosen)}
      onChange={(v) => v !== null && props.choose(Number(v))}
      allowDeselect={false}
      w={140}
    />
  );
}
