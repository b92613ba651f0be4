// Calls a tool, cancels its task, and follows that to the end.
import { call, connect, follow } from "./ext.mjs";
import { run } from "./scenario.mjs";

await run(async (leave) => {
  const { session } = await connect(leave);
  const execution = await call(session);
  await execution.cancel();
  return follow(execution);
});
