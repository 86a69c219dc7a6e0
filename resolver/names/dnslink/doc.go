// Package dnslink asks the DNS what a domain stands for (SPEC §6, Names).
//
// A domain has a TXT record at _dnslink.<domain> with one of
//
//	dnslink=/b3/b3:<hex>[/path]          an address
//	dnslink=/n/<label>.<zone key>[/path] a name
//	dnslink=/n/<domain>[/path]           another domain
//
// Invariants:
//
//   - Nobody signs the answer, so it is a hint. The bytes behind it are proved as all others.
//   - A lookup ends after [Timeout]. At most 8 run, 64 wait, and more are busy.
//   - Nothing is remembered: the resolver of the system does not say for how long it could be.
//   - A domain with two different links has none. Text that is no link is passed over.
//
// One lookup: [Resolver.Lookup] checks the domain, asks for the TXT records of _dnslink.<domain> as an
// absolute name, so that no search list applies, and parses the one that begins with "dnslink=".
package dnslink
