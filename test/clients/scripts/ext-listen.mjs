// Calls a tool and hears of its task: in 2026-07-28 from subscriptions/listen, in 2025-11-25 on the stream that the client
// opens for whatever the server has to say.
import { call, connect, follow, modern } from "./ext.mjs";
import { run } from "./scenario.mjs";

await run(async (leave) => {
  const { client, session } = await connect(leave);
  const execution = await call(session);
  if (!modern) return follow(execution);
  const subscription = await client.listen({ taskIds: [execution.handle.taskId] });
  let closed;
  void subscription.closed.then((how) => (closed = how));
  const seen = await follow(execution);
  const closedByServer = closed;
  await subscription.close();
  return { ...seen, closedByServer };
});
