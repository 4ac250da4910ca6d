import "./styles.css";
import "./app.css";
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Refused } from "./api/client";
import { startLanguages } from "./i18n/setup";
import { router } from "./router";
import { redeem } from "./session";
import { colours, theme } from "./theme";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      // Streams say when something changed; a refusal does not become better by asking again.
      staleTime: 5_000,
      retry: (count, error) => count < 3 && error instanceof Refused && (error.status === 0 || error.status >= 500),
    },
  },
});

await Promise.all([startLanguages(), redeem()]);
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <MantineProvider theme={theme} cssVariablesResolver={colours} defaultColorScheme="auto">
        <QueryClientProvider client={client}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  );
}
