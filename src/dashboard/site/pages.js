// The pages, in the order of the list. The gateway knows their names: src/dashboard/mod.rs.
import { Costs } from "./pages/costs.js";
import { Leaderboard } from "./pages/leaderboard.js";
import { Live } from "./pages/live.js";
import { Models } from "./pages/models.js";
import { OverTime } from "./pages/time.js";
import { Races } from "./pages/races.js";
import { Routing } from "./pages/routing.js";
import { Status } from "./pages/status.js";

/** @type {{ name: string, title: string, Page: (props: { rest: string }) => any }[]} */
export const PAGES = [
  { name: "live", title: "Live", Page: Live },
  { name: "leaderboard", title: "Leaderboard", Page: Leaderboard },
  { name: "races", title: "Races", Page: Races },
  { name: "time", title: "Over time", Page: OverTime },
  { name: "costs", title: "Costs", Page: Costs },
  { name: "routing", title: "Routing", Page: Routing },
  { name: "models", title: "Models", Page: Models },
  { name: "status", title: "Status", Page: Status },
];
