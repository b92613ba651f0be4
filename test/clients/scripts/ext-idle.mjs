// Is connected and does nothing, until the test lets it go.
import { connect } from "./ext.mjs";
import { dismissed, ready, run } from "./scenario.mjs";

await run(async (leave) => {
  await connect(leave);
  ready();
  await dismissed();
  return {};
});
