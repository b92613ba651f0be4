// Lists the tasks of the caller, page by page (2025-11-25).
import { connect } from "./ext.mjs";
import { run } from "./scenario.mjs";

await run(async (leave) => {
  const { session } = await connect(leave);
  const tasks = [];
  let cursor;
  do {
    const page = await session.listTasks(cursor);
    tasks.push(...page.tasks.map((task) => task.taskId));
    cursor = page.nextCursor;
  } while (cursor);
  return { tasks };
});
