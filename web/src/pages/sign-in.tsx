import { Button, Card, Center, Group, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { useSignIn } from "../api/queries";
import { Choices } from "../parts/shell";
import { Failure } from "../parts/states";

export function SignIn() {
  const { t } = useTranslation();
  const [token, setToken] = useState("");
  const [missing, setMissing] = useState(false);
  const signIn = useSignIn();
  function submit(event: FormEvent) {
    event.preventDefault();
    const clean = token.trim();
    setMissing(clean === "");
    if (clean !== "") signIn.mutate(clean);
  }
  return (
    <Center mih="100vh" p="md" component="main">
      <Card withBorder shadow="sm" padding="xl" w="100%" maw={420}>
        <form onSubmit={submit}>
          <Stack>
            <Group justify="space-between">
              <img src="/favicon.svg" alt="" width={34} height={34} />
              <Choices />
            </Group>
            <Title order={1} size="h3">
              {t("signIn.title")}
            </Title>
            <PasswordInput
              label={t("signIn.token")}
              description={t("signIn.hint")}
              value={token}
              onChange={(e) => setToken(e.currentTarget.value)}
              error={missing ? t("signIn.empty") : undefined}
              autoComplete="off"
              data-autofocus
              maxLength={4096}
            />
            {signIn.error && <Failure error={signIn.error} />}
            <Button type="submit" loading={signIn.isPending}>
              {t("signIn.submit")}
            </Button>
            <Text size="xs" c="dimmed">
              {t("signIn.kept")}
            </Text>
          </Stack>
        </form>
      </Card>
    </Center>
  );
}
