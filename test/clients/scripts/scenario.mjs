// What all scripts share: their one argument is JSON, and they print one JSON line of what the client saw.

export const input = JSON.parse(process.argv[2]);

// faults are what the client complained of without failing: an answer it could not read, a message it did not expect.
const faults = [];
let leaving = false;

export function fault(error) {
  if (!leaving) faults.push(String(error?.stack ?? error));
}

// asked are the questions that were put to the user, who answers as input.answers says, after thinking for as many
// milliseconds as input.thinks says.
export const asked = [];

export async function answer(params, how) {
  asked.push({ message: params.message, ...how });
  const given = input.answers?.[params.message];
  if (given === undefined) throw new Error(`nobody can answer ${JSON.stringify(params.message)}`);
  await new Promise((resolve) => setTimeout(resolve, input.thinks ?? 0));
  return given;
}

// ready tells the test that the client is where it wants it.
export function ready() {
  process.stdout.write("ready\n");
}

// dismissed is when the test closes the standard input.
export function dismissed() {
  process.stdin.resume();
  return new Promise((resolve) => process.stdin.once("end", resolve));
}

// shown is an error as the test reads it. Only an error of the server has a number for a code.
export function shown(error) {
  return { code: Number.isInteger(error.code) ? error.code : 0, message: `${error.name}: ${error.message}`, data: error.data };
}

// run runs a scenario, prints what it saw, and lets it leave. leave is called when nothing counts any more.
export async function run(scenario) {
  const leavings = [];
  try {
    const seen = await scenario((leave) => leavings.push(leave));
    leaving = true;
    process.stdout.write(`${JSON.stringify({ ...seen, asked, faults })}\n`);
  } catch (error) {
    leaving = true;
    console.error(error, { asked, faults });
    process.exitCode = 1;
  }
  for (const leave of leavings.reverse()) await leave();
  process.stdin.unref?.();
}
