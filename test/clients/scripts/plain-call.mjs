// Calls a tool and waits for its result.
import { connect } from "./plain.mjs";
import { input, run, shown } from "./scenario.mjs";

await run(async (leave) => {
  const client = await connect(leave);
  const progress = [];
  const options = input.progress ? { onprogress: (p) => progress.push(p), resetTimeoutOnProgress: true } : {};
  try {
    const result = await client.callTool({ name: input.tool, arguments: input.arguments ?? {} }, options);
    return { kind: "immediate", result, progress };
  } catch (error) {
    return { kind: "immediate", error: shown(error), progress };
  }
});
