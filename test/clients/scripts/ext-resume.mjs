// Takes up a task that another client has made, and follows it to the end.
import { connect, follow, modern } from "./ext.mjs";
import { input, run } from "./scenario.mjs";

await run(async (leave) => {
  const { session } = await connect(leave);
  return follow(
    await session.resumeTask({
      endpointId: input.url,
      generation: modern ? "v2" : "v1",
      taskId: input.taskId,
      originalOperation: "tools/call",
    }),
  );
});
