import { Anchor, Stack } from "@mantine/core";
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  type RouterHistory,
} from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { Overview } from "./pages/overview";
import { AnchorLink } from "./parts/link";
import { Shell } from "./parts/shell";
import { Empty, Failure, Loading } from "./parts/states";
import { readOrigin, readSearch } from "./search";

function NotFound() {
  const { t } = useTranslation();
  return (
    <Empty text={t("state.notFound")}>
      <AnchorLink to="/">{t("state.home")}</AnchorLink>
    </Empty>
  );
}

/** In the place of a page that broke; the others go on working. */
export function Broken({ error, reset }: { error: unknown; reset: () => void }) {
  const { t } = useTranslation();
  return (
    <Stack align="flex-start" p="md">
      <Failure
        error={error instanceof Error ? error : new Error(String(error))}
        title={t("state.broken")}
        retry={reset}
      />
      {/* A plain link: it begins anew, whatever is broken. */}
      <Anchor href="/" size="sm">
        {t("state.home")}
      </Anchor>
    </Stack>
  );
}

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound, errorComponent: Broken });

const routeTree = root.addChildren([
  createRoute({
    getParentRoute: () => root,
    path: "/",
    component: Overview, // where people land: no second wait
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/zones",
    component: lazyRouteComponent(() => import("./pages/zones"), "Zones"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/tasks/",
    validateSearch: readSearch,
    component: lazyRouteComponent(() => import("./pages/tasks"), "Tasks"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/tasks/$name",
    component: lazyRouteComponent(() => import("./pages/task"), "TaskPage"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/create",
    validateSearch: readOrigin,
    component: lazyRouteComponent(() => import("./pages/create"), "Create"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/environments/",
    component: lazyRouteComponent(() => import("./pages/environments"), "Environments"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/environments/create",
    component: lazyRouteComponent(() => import("./pages/environment-create"), "CreateEnvironment"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/environments/$name",
    component: lazyRouteComponent(() => import("./pages/environment"), "EnvironmentPage"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/images",
    component: lazyRouteComponent(() => import("./pages/images"), "Images"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/datasets/",
    component: lazyRouteComponent(() => import("./pages/datasets"), "Datasets"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/datasets/$name",
    component: lazyRouteComponent(() => import("./pages/dataset"), "DatasetPage"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/models/",
    component: lazyRouteComponent(() => import("./pages/models"), "Models"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/models/$name",
    component: lazyRouteComponent(() => import("./pages/model"), "ModelPage"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/services/",
    component: lazyRouteComponent(() => import("./pages/services"), "Services"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/services/create",
    component: lazyRouteComponent(() => import("./pages/service-create"), "CreateService"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/services/$name",
    component: lazyRouteComponent(() => import("./pages/service"), "ServicePage"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/nodes/$name",
    component: lazyRouteComponent(() => import("./pages/node"), "NodePage"),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/account",
    component: lazyRouteComponent(() => import("./pages/account"), "Account"),
  }),
]);

/** The pages; history is the browser's where none is given. */
export function makeRouter(history?: RouterHistory) {
  return createRouter({
    routeTree,
    history,
    trailingSlash: "never",
    defaultPendingComponent: () => <Loading rows={8} />,
    defaultErrorComponent: Broken, // a boundary around every route
  });
}

export const router = makeRouter();

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
