// Package script is the language of the testnet: one line is one step. The
// same lines are what `allium testnet chaos` and `allium testnet run` take,
// what a scenario file holds and what a recording writes (docs/contributing/testnet.md).
//
// One line, walked through: [Parse] splits "latency 50ms ±10ms [2-4]" into
// words, finds the verb in the table of [Verbs] and lets it read the rest; an
// error says the column, what was expected there, and what is alike.
// [Step.String] writes the canonical form, which parses to an equal step.
// [ParseFile] does so for a file and checks what only a file can tell: numbers
// of nodes and names of content.
//
// # Invariants
//
// The package knows no network and does no I/O. What it accepts is bounded: see
// the constants.
package script
