// Package script parses and writes the language of the testnet, in which one line is
// one step. `allium testnet chaos` and `allium testnet run` execute such lines, and a
// recording writes them into a scenario file (docs/contributing/testnet.md).
//
// # Invariants
//
//   - The package does no I/O. It does not know a running network.
//   - The constants bound every line, file and number that it accepts.
//   - Parsing the canonical form of a step returns an equal step.
//
// # One line, walked through
//
// [Parse] splits "latency 50ms ±10ms [2-4]" into words, finds the verb in the table of
// [Verbs] and lets it read the rest. An error says the column and what was expected
// there, and suggests a similar verb. [Step.String] writes the canonical form.
// [ParseFile] reads a whole file. It also checks that every node exists and that
// content is added before another step names it.
package script
