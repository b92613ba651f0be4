// @modelcontextprotocol/ext-tasks on @modelcontextprotocol/client, in the era that the input names.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";
import { answer, fault, input, shown } from "./scenario.mjs";

export const modern = input.era === "2026-07-28";

const clientInfo = { name: "ext-tasks", version: "0.2.2" };
// Declared in both eras: what an older server does not know it has to overlook.
const capabilities = { elicitation: { form: {} }, extensions: { "io.modelcontextprotocol/tasks": {} } };

export async function connect(leave) {
  const client = new Client(clientInfo, { capabilities, versionNegotiation: { mode: modern ? "auto" : "legacy" } });
  const transport = new StreamableHTTPClientTransport(new URL(input.url));
  client.onerror = complaints(transport);
  await client.connect(transport);
  leave(() => client.close());
  if (client.getNegotiatedProtocolVersion() !== input.era) throw new Error(`negotiated ${client.getNegotiatedProtocolVersion()}`);
  const session = createTaskSessionFromClient(client, {
    endpointId: input.url,
    onError: fault,
    onInputRequest: async (request, context) =>
      answer(request.params, { delivery: context.delivery, scope: context.scope, taskId: context.taskId }),
    ...(modern && {
      rawDispatch: dispatcher(transport),
      v2RequestFraming: { protocolVersion: input.era, clientInfo, clientCapabilities: capabilities },
    }),
  });
  leave(() => session.close());
  return { client, session };
}

// complaints counts as faults what the client complains of. Not that requests are answered which it has given up: ext-tasks
// gives up a poll on its way when a notification comes first.
function complaints(transport) {
  const givenUp = new Set();
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if (message.method === "notifications/cancelled") givenUp.add(message.params.requestId);
    return send(message, options);
  };
  return (error) => {
    const late = /unknown message ID: .*"id":(\d+)/.exec(error.message);
    if (!late || !givenUp.has(Number(late[1]))) fault(error);
  };
}

// dispatcher sends what ext-tasks gives it over the client's own transport, which writes the headers and reads the
// answer: the client itself takes a CreateTaskResult for a fault, so ext-tasks leaves this to its host.
function dispatcher(transport) {
  const waiting = new Map();
  const others = transport.onmessage;
  transport.onmessage = (message, extra) => {
    const settle = "method" in message ? undefined : waiting.get(message.id);
    if (settle) settle(message);
    else others?.(message, extra);
  };
  let sent = 0;
  return async (request, { signal, context } = {}) => {
    const id = `task:${++sent}`;
    try {
      const message = await new Promise((resolve, reject) => {
        waiting.set(id, resolve);
        transport
          .send(
            { jsonrpc: "2.0", id, ...request },
            {
              requestSignal: signal,
              headers: context?.headers,
              onRequestStreamEnd: () => reject(new Error(`${request.method}: the stream ended without an answer`)),
            },
          )
          .catch(reject);
      });
      return message.error ? { kind: "error", error: message.error } : { kind: "result", result: message.result };
    } finally {
      waiting.delete(id);
    }
  };
}

// call calls the tool of the input, as a task where the tool lets it.
export function call(session) {
  return session.callTool(input.tool, input.arguments ?? {}, { task: { preference: "prefer" } });
}

// follow follows an execution to its end.
export async function follow(execution) {
  const states = [];
  const { outcome } = await execution.settle({
    onEvent: (event) => {
      const state = event.task?.status;
      if (state && states.at(-1) !== state) states.push(state);
    },
  });
  return {
    kind: execution.kind,
    taskId: execution.handle?.taskId,
    states,
    outcome: outcome.status,
    result: outcome.result,
    error: outcome.error && shown(outcome.error),
  };
}
