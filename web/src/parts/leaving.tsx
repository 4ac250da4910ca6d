import { List, Stack, Table, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Outage } from "../api/nodes";
import { said } from "../format";
import { useLanguage } from "./now";
import { View } from "./states";

interface Read {
  data: Outage | undefined;
  error: Error | null;
  refetch: () => unknown;
}

/** Where the tasks of a place would go if it were lost now. */
export function Leaving({ read }: { read: Read }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  return (
    <View read={read} rows={3}>
      {(o) => (
        <Stack gap="xs">
          <Text size="sm">{t("leave.sum", { move: o.move, wait: o.wait })}</Text>
          {(o.items ?? []).length > 0 && (
            <Table.ScrollContainer minWidth={420} mah={280}>
              <Table>
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>{t("tasks.name")}</Table.Th>
                    <Table.Th>{t("leave.replicas")}</Table.Th>
                    <Table.Th>{t("leave.to")}</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {(o.items ?? []).map((task) => (
                    <Table.Tr key={`${task.project}/${task.name}`}>
                      <Table.Td className="break">
                        {task.name}
                        <Text size="xs" c="dimmed">
                          {task.project}
                        </Text>
                      </Table.Td>
                      <Table.Td>{t("leave.of", { lost: task.lost, all: task.replicas })}</Table.Td>
                      <Table.Td className="break">
                        {task.to && Object.keys(task.to).length > 0 ? (
                          Object.entries(task.to)
                            .map(([zone, n]) => `${zone} × ${n}`)
                            .join(", ")
                        ) : (
                          <List size="sm" listStyleType="none" m={0} p={0}>
                            <List.Item>{t("leave.waits")}</List.Item>
                            {said(task.message, lang) && (
                              <List.Item>
                                <Text size="xs" c="dimmed" className="break">
                                  {said(task.message, lang)}
                                </Text>
                              </List.Item>
                            )}
                          </List>
                        )}
                      </Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          )}
          {(o.more ?? 0) > 0 && (
            <Text size="sm" c="dimmed">
              {t("leave.more", { n: o.more ?? 0 })}
            </Text>
          )}
        </Stack>
      )}
    </View>
  );
}
