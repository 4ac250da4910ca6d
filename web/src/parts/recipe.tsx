import { Button, Code, Drawer, Group, Stack, Tabs, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type { Schemas } from "../api/client";
import { saveFile, useRecipe } from "../api/queries";
import { View } from "./states";
import { Warnings } from "./warnings";

/** A drawer with what the framework would make of the manifest: environment, command and files. */
export default function Recipe({ yaml, close }: { yaml: string; close: () => void }) {
  const { t } = useTranslation();
  const read = useRecipe(yaml);
  return (
    <Drawer
      opened
      onClose={close}
      position="right"
      size="xl"
      title={t("recipe.title")}
      closeButtonProps={{ "aria-label": t("recipe.close") }}
    >
      <View read={read} rows={8}>
        {(recipe) => <Ready recipe={recipe} />}
      </View>
    </Drawer>
  );
}

function Ready({ recipe }: { recipe: Schemas["Recipe"] }) {
  const { t } = useTranslation();
  const framework = recipe.strategy ? `${recipe.framework} · ${recipe.strategy}` : recipe.framework;
  const save = (name: string, text: string) => saveFile(name, new Blob([text], { type: "text/plain" }));
  return (
    <Stack>
      <Group justify="space-between" align="flex-start" wrap="nowrap">
        <Stack gap={2}>
          <Text fw={600}>{t("recipe.ranks", { count: recipe.rankCount, framework })}</Text>
          <Text size="sm" c="dimmed">
            {t("recipe.explain")}
          </Text>
        </Stack>
        <Button
          size="xs"
          variant="default"
          style={{ flexShrink: 0 }}
          onClick={() => save("recipe.json", `${JSON.stringify(recipe, undefined, 2)}\n`)}
        >
          {t("recipe.downloadAll")}
        </Button>
      </Group>
      <Warnings list={recipe.warnings} />
      <Part title={t("recipe.files")}>
        {recipe.files.length === 0 && (
          <Text size="sm" c="dimmed">
            {t("recipe.noFiles")}
          </Text>
        )}
        {recipe.files.map((f) => (
          <Stack key={f.name} gap={4}>
            <Group justify="space-between">
              <Text size="sm" ff="monospace" className="break">
                {f.name}
              </Text>
              <Button size="compact-xs" variant="default" onClick={() => save(f.name, f.text)}>
                {t("recipe.download", { name: f.name })}
              </Button>
            </Group>
            <Code block tabIndex={0}>
              {f.text}
            </Code>
          </Stack>
        ))}
      </Part>
      <Ranks recipe={recipe} />
    </Stack>
  );
}

function Ranks({ recipe }: { recipe: Schemas["Recipe"] }) {
  const { t } = useTranslation();
  const key = (r: Schemas["RecipeRank"]) => `${r.role}-${r.rank}`;
  const first = recipe.ranks[0];
  if (!first) return null;
  return (
    <Tabs defaultValue={key(first)} keepMounted={false}>
      <Tabs.List mb="sm">
        {recipe.ranks.map((r) => (
          <Tabs.Tab key={key(r)} value={key(r)}>
            {t("recipe.rank", { role: r.role, n: r.rank })}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {recipe.rankCount > recipe.ranks.length && (
        <Text size="xs" c="dimmed" mb="sm">
          {t("recipe.shown", { count: recipe.ranks.length })}
        </Text>
      )}
      {recipe.ranks.map((r) => (
        <Tabs.Panel key={key(r)} value={key(r)}>
          <Stack>
            <Part title={t("recipe.command")}>
              <Code block tabIndex={0}>
                {r.command.join(" ")}
              </Code>
            </Part>
            <Part title={t("recipe.env")}>
              <Code block tabIndex={0}>
                {r.env.map((e) => `${e.name}=${e.value ?? ""}`).join("\n")}
              </Code>
            </Part>
          </Stack>
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Stack gap={6}>
      <Text component="h3" size="sm" fw={600} m={0}>
        {title}
      </Text>
      {children}
    </Stack>
  );
}
