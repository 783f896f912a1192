// Plays one role of a turn loop through the official MCP SDK for TypeScript.
//
// Prints one line of JSON: what it saw. `--refused-first` makes it hand over a turn it does not
// hold before anything else, and say `ready` on standard error afterwards. The SDK is found in
// the directory that TASUKI_SDK names.

import { createRequire } from 'node:module';
import { parseArgs } from 'node:util';
import assert from 'node:assert/strict';

// One waiting call, in seconds, and how often it is made before giving up.
const HOLD = 20;
const CALLS_MAX = 10;

const require = createRequire(`${process.env.TASUKI_SDK}/package.json`);
const sdk = (path) => require(`@modelcontextprotocol/sdk/client/${path}.js`);

const { values: args, positionals: target } = parseArgs({
  allowPositionals: true,
  options: {
    transport: { type: 'string' },
    role: { type: 'string' },
    rounds: { type: 'string' },
    'refused-first': { type: 'boolean' },
    completes: { type: 'boolean' },
  },
});
const { role } = args;
const rounds = Number(args.rounds);

function transport() {
  switch (args.transport) {
    case 'http':
      return new (sdk('streamableHttp').StreamableHTTPClientTransport)(new URL(target[0]));
    case 'sse':
      return new (sdk('sse').SSEClientTransport)(new URL(target[0]));
    case 'stdio': {
      const [command, ...rest] = target;
      return new (sdk('stdio').StdioClientTransport)({ command, args: rest, stderr: 'inherit' });
    }
    default:
      throw new Error(`no transport ${args.transport}`);
  }
}

const { Client } = sdk('index');
const client = new Client({ name: 'tasuki-sdk-test', version: '1.0.0' });

const call = (name, given) =>
  client.callTool({ name, arguments: given }, undefined, { timeout: 2 * HOLD * 1000 });

async function myTurn() {
  for (let i = 0; i < CALLS_MAX; i++) {
    const result = await call('await_my_turn', { agent_id: role, timeout_sec: HOLD });
    assert.ok(!result.isError, JSON.stringify(result));
    const answer = JSON.parse(result.content[0].text);
    if (answer.can_start || answer.is_finished) return answer;
    assert.ok(answer.still_waiting && answer.hint, JSON.stringify(answer));
  }
  throw new Error(`it never became the turn of ${role}`);
}

const handOver = (number, isTaskComplete = false, more = {}) =>
  call('handover_work', {
    current_agent_id: role,
    work_summary: `${role} did ${number}`,
    next_instruction: `go on after ${number}`,
    is_task_complete: isTaskComplete,
    ...more,
  });

const saw = { sdk: 'typescript', transport: args.transport, turns: [] };
const way = transport();
await client.connect(way);
saw.server = client.getServerVersion().name;
saw.protocol = way.protocolVersion ?? null;
saw.tools = (await client.listTools()).tools.map((tool) => tool.name).sort();
if (args['refused-first']) {
  const refused = await handOver(0);
  saw.refused = {
    is_error: refused.isError,
    error: refused.structuredContent.error,
    text: refused.content[0].text,
  };
  console.error('ready');
}
for (let number = 1; number <= rounds; number++) {
  const answer = await myTurn();
  assert.ok(answer.can_start, JSON.stringify(answer));
  saw.turns.push(answer);
  const isLast = Boolean(args.completes) && number === rounds;
  const done = await handOver(number, isLast, { turn: answer.turn });
  assert.ok(!done.isError, JSON.stringify(done));
  saw.handed_over = done.content[0].text;
}
saw.finished = (await myTurn()).is_finished;
await client.close();
console.log(JSON.stringify(saw));
