import { Button, CloseButton, Group, Input, Stack, TextInput } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Variable } from "../workform";

/** Names and values that the processes get as environment variables. */
export function Variables(props: {
  value: readonly Variable[];
  change: (rows: Variable[]) => void;
  /** What is wrong with a row, by variables.N. */
  faults: Record<string, string>;
}) {
  const { value, change, faults } = props;
  const { t } = useTranslation();
  const edit = (at: number, patch: Partial<Variable>) =>
    change(value.map((row, i) => (i === at ? { ...row, ...patch } : row)));
  return (
    <Input.Wrapper label={t("work.variables")} description={t("work.variablesHint")} labelElement="div">
      <Stack gap={6} mt={6}>
        {value.map((row, i) => {
          const fault = faults[`variables.${i}`];
          return (
            <Stack
              // biome-ignore lint/suspicious/noArrayIndexKey: a row is its place
              key={i}
              gap={2}
            >
              <Group gap="xs" wrap="nowrap">
                <TextInput
                  aria-label={t("work.variableName", { n: i + 1 })}
                  placeholder="HF_HOME"
                  value={row.name}
                  onChange={(e) => edit(i, { name: e.currentTarget.value })}
                  error={Boolean(fault)}
                  maxLength={128}
                  spellCheck={false}
                  flex={1}
                />
                <TextInput
                  aria-label={t("work.variableValue", { n: i + 1 })}
                  placeholder="/tmp/hf"
                  value={row.value}
                  onChange={(e) => edit(i, { value: e.currentTarget.value })}
                  maxLength={4096}
                  spellCheck={false}
                  flex={1}
                />
                <CloseButton
                  aria-label={t("work.variableRemove", { n: i + 1 })}
                  onClick={() => change(value.filter((_, at) => at !== i))}
                />
              </Group>
              {fault && <Input.Error>{fault}</Input.Error>}
            </Stack>
          );
        })}
        <Group>
          <Button size="compact-sm" variant="default" onClick={() => change([...value, { name: "", value: "" }])}>
            {t("work.variableAdd")}
          </Button>
        </Group>
      </Stack>
    </Input.Wrapper>
  );
}
