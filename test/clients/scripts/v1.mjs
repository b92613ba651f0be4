// @modelcontextprotocol/sdk, the first generation, with its experimental tasks.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { answer, fault, input, shown } from "./scenario.mjs";

export async function connect(leave, options = {}) {
  const client = new Client(
    { name: "sdk", version: "1.32.2" },
    { capabilities: { elicitation: { form: {} }, tasks: { list: {}, cancel: {} } }, ...options },
  );
  client.onerror = fault;
  client.setRequestHandler(ElicitRequestSchema, async (request) =>
    answer(request.params, { taskId: request.params._meta?.["io.modelcontextprotocol/related-task"]?.taskId }),
  );
  await client.connect(new StreamableHTTPClientTransport(new URL(input.url)));
  leave(() => client.close());
  return client;
}

// resultOf waits in tasks/result, where questions are asked, too.
export async function resultOf(client, taskId) {
  try {
    return { result: await client.experimental.tasks.getTaskResult(taskId, CallToolResultSchema) };
  } catch (error) {
    return { error: shown(error) };
  }
}
