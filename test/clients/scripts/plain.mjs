// @modelcontextprotocol/client by itself, which knows no tasks, in the era that the input names.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { answer, fault, input } from "./scenario.mjs";

export async function connect(leave, options = {}) {
  const client = new Client(
    { name: "client", version: "2.4.0" },
    {
      capabilities: { elicitation: { form: {} } },
      versionNegotiation: { mode: input.era === "2026-07-28" ? "auto" : "legacy" },
      ...options,
    },
  );
  client.onerror = fault;
  client.setRequestHandler("elicitation/create", async (request) => answer(request.params, {}));
  await client.connect(new StreamableHTTPClientTransport(new URL(input.url)));
  leave(() => client.close());
  if (client.getNegotiatedProtocolVersion() !== input.era) throw new Error(`negotiated ${client.getNegotiatedProtocolVersion()}`);
  return client;
}
