// Package text writes the results of commands for people: one line or a small
// table for each value of the local API (gateway/api).
//
// Its functions are pure: they read a value and return text without a final line
// break. Sizes are in KiB, MiB and GiB. Names that other people chose pass through
// printable.Name, so that they cannot act on a terminal. A parameter quiet is the
// flag -q and asks for what a script needs: identities without descriptions.
//
// One result, walked through: `allium gc plan` calls GC with the report of the
// store; GC writes a line for each class of objects with Plural and limits.Bytes,
// and app.print prints it.
package text
