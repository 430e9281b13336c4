// The pages, in the order of the list. The gateway knows their names: src/dashboard/mod.rs.
import { Models } from "./pages/models.js";
import { Routing } from "./pages/routing.js";
import { Status } from "./pages/status.js";

/** @type {{ name: string, title: string, Page: (props: { rest: string }) => any }[]} */
export const PAGES = [
  { name: "routing", title: "Routing", Page: Routing },
  { name: "models", title: "Models", Page: Models },
  { name: "status", title: "Status", Page: Status },
];
