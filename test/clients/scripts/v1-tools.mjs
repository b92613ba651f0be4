// Waits until it hears that the tools have changed.
import { connect } from "./v1.mjs";
import { ready, run } from "./scenario.mjs";

await run(async (leave) => {
  let changed;
  const heard = new Promise((resolve) => (changed = resolve));
  const client = await connect(leave, { listChanged: { tools: { onChanged: (error, tools) => changed({ error, tools }) } } });
  const before = (await client.listTools()).tools.map((tool) => tool.name);
  ready();
  const { error, tools } = await heard;
  if (error) throw error;
  return { before, tools: tools.map((tool) => tool.name) };
});
