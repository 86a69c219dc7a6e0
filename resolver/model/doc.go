// Package model checks the concurrency of lookups with a Promela model. spin explores every state of it.
// The package has only tests.
//
// lookups.pml models callers that share the lookup of a key, the search behind it, the cache with its
// janitor, and the end of the resolver: package providers, and with NAMES package names. It names the Go
// functions that its processes stand for. Each guard names the property that fails without it:
// TestModels removes the guards one by one.
//
// # Properties
//
//   - One search for a key runs at a time, but for those that nobody wants any more.
//   - A caller that leaves ends the search of nobody else.
//   - A search ends once, and nothing is added to it after its end, whatever the finder does.
//   - Every caller gets an answer or gives up. Nothing that has expired is an answer.
//   - The janitor drops only what has expired.
//   - Run returns. Then nothing runs, and nothing begins.
//
// # Invariants
//
// The model allows everything that the code can do. Deadlines and callers that give up appear only as
// "may end now". It leaves open what the finder finds, when it returns and whether it heeds its context.
// It omits retries, the breaker, what is read of a search before its end, and lookups with a trace, which
// are not shared. The race detector checks the memory model.
//
// TestLookupsInEveryOrder of package providers and TestNamesInEveryOrder of package names run the same
// scenario on the Go code, in every order of larger steps (internal/testkit).
//
// # One check
//
// See package allium/internal/testkit/promela. To see the path to a failure:
//
//	spin -DCALLERS=3 -a lookups.pml && gcc -o pan pan.c && ./pan -a -N single
//	spin -DCALLERS=3 -t -p -g lookups.pml
package model
