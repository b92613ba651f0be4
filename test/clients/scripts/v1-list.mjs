// Lists the tasks of the caller, page by page.
import { connect } from "./v1.mjs";
import { run } from "./scenario.mjs";

await run(async (leave) => {
  const client = await connect(leave);
  const tasks = [];
  let cursor;
  do {
    const page = await client.experimental.tasks.listTasks(cursor);
    tasks.push(...page.tasks.map((task) => task.taskId));
    cursor = page.nextCursor;
  } while (cursor);
  return { tasks };
});
