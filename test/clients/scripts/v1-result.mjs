// Reads a task that another client has made, and waits in tasks/result for its end.
import { connect, resultOf } from "./v1.mjs";
import { input, run } from "./scenario.mjs";

await run(async (leave) => {
  const client = await connect(leave);
  const before = await client.experimental.tasks.getTask(input.taskId);
  const result = await resultOf(client, input.taskId);
  const after = await client.experimental.tasks.getTask(input.taskId);
  return { taskId: input.taskId, states: [before.status, after.status], ...result };
});
