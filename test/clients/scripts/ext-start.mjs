// Calls a tool and leaves its task to others.
import { call, connect } from "./ext.mjs";
import { run } from "./scenario.mjs";

await run(async (leave) => {
  const { session } = await connect(leave);
  const execution = await call(session);
  await execution.detach();
  return { kind: execution.kind, taskId: execution.handle?.taskId };
});
