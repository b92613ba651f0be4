// Calls a tool and follows its task to the end.
import { call, connect, follow } from "./ext.mjs";
import { run } from "./scenario.mjs";

await run(async (leave) => {
  const { session } = await connect(leave);
  return follow(await call(session));
});
