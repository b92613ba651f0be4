// Calls a tool as if there were no tasks.
import { connect } from "./v1.mjs";
import { input, run, shown } from "./scenario.mjs";

await run(async (leave) => {
  const client = await connect(leave);
  const progress = [];
  const options = input.progress ? { onprogress: (p) => progress.push(p), resetTimeoutOnProgress: true } : {};
  try {
    const result = await client.callTool({ name: input.tool, arguments: input.arguments ?? {} }, undefined, options);
    return { kind: "immediate", result, progress };
  } catch (error) {
    return { kind: "immediate", error: shown(error), progress };
  }
});
