import {
  ActionIcon,
  AppShell,
  Burger,
  Button,
  Group,
  Text,
  useComputedColorScheme,
  useMantineColorScheme,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { Outlet, useLocation } from "@tanstack/react-router";
import { useSyncExternalStore } from "react";
import { useTranslation } from "react-i18next";
import { useSignOut, useWhoami } from "../api/queries";
import { chooseLanguage } from "../i18n/setup";
import { SignIn } from "../pages/sign-in";
import { onSession, signedIn } from "../session";
import { Announcement } from "./announcement";
import { AnchorLink, NavTo } from "./link";
import { useLanguage } from "./now";

const places = [
  { to: "/", word: "nav.overview" },
  { to: "/environments", word: "nav.environments" },
  { to: "/tasks", word: "nav.tasks" },
  { to: "/create", word: "nav.create" },
  { to: "/services", word: "nav.services" },
  { to: "/images", word: "nav.images" },
  { to: "/datasets", word: "nav.datasets" },
  { to: "/models", word: "nav.models" },
  { to: "/zones", word: "nav.zones" },
] as const;

/** The frame around every page; without a session it shows sign-in in the page's place. */
export function Shell() {
  const inside = useSyncExternalStore(onSession, signedIn);
  return inside ? (
    <>
      <Frame />
      <Announcement />
    </>
  ) : (
    <SignIn />
  );
}

/** Language and colour, also on the sign-in page. */
export function Choices() {
  const { t } = useTranslation();
  const lang = useLanguage();
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  const other = scheme === "dark" ? "light" : "dark";
  return (
    <Group gap="xs" wrap="nowrap">
      <Button
        variant="default"
        size="xs"
        aria-label={t("nav.language")}
        onClick={() => void chooseLanguage(lang === "zh" ? "en" : "zh")}
      >
        {t("nav.languageShort")}
      </Button>
      <ActionIcon
        variant="default"
        size={30}
        aria-label={other === "dark" ? t("nav.dark") : t("nav.light")}
        onClick={() => setColorScheme(other)}
      >
        {other === "dark" ? "☾" : "☀"}
      </ActionIcon>
    </Group>
  );
}

function Frame() {
  const { t } = useTranslation();
  const [open, menu] = useDisclosure(false);
  const path = useLocation({ select: (l) => l.pathname });
  const who = useWhoami();
  const signOut = useSignOut();
  return (
    <AppShell
      header={{ height: 54 }}
      navbar={{ width: 208, breakpoint: "sm", collapsed: { mobile: !open } }}
      padding={{ base: "sm", md: "lg" }}
    >
      <a href="#content" className="skip">
        {t("app.skip")}
      </a>
      <AppShell.Header px="md">
        <Group h="100%" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={open} onClick={menu.toggle} hiddenFrom="sm" size="sm" aria-label={t("nav.menu")} />
            <img src="/favicon.svg" alt="" width={26} height={26} />
            <Text fw={700}>Fermi</Text>
          </Group>
          <Group gap="sm" wrap="nowrap">
            {who.data && (
              <AnchorLink to="/account" size="sm" truncate maw={200} title={t("nav.account")}>
                {who.data.user}
              </AnchorLink>
            )}
            <Choices />
            <Button variant="subtle" size="xs" onClick={signOut}>
              {t("nav.signOut")}
            </Button>
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label={t("nav.main")}>
        {places.map(({ to, word }) => (
          <NavTo
            key={to}
            to={to}
            label={t(word)}
            active={to === "/" ? path === "/" : path.startsWith(to) || (to === "/zones" && path.startsWith("/nodes/"))}
            onClick={menu.close}
            style={{ borderRadius: 8 }}
          />
        ))}
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        <Outlet />
      </AppShell.Main>
    </AppShell>
  );
}
