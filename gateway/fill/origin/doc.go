// Package origin provides an HTTP client for one source of live fill. Nothing that a request, an
// answer or the DNS says can make it reach an address that the operator did not allow.
//
// Invariants:
//
//   - The resolved address is checked in the dialer, after the name was looked up and before the
//     connection is made. So a name that changes between a check and the dial gains nothing, and
//     neither does any spelling of an address.
//   - A redirect leads to https alone: at port 443, or at the source's own host and port. There are
//     at most two, and each is dialed by the same dialer. There is no proxy.
//   - A request has a method, a path, a fixed set of headers, and nothing of the client.
//   - A body that ends early, is too long, too slow or compressed is an error. It never looks whole.
//   - Everything has a bound: the time to the first byte over all tries, the pauses and the rate
//     after it, the bytes of headers and body, the tries, the redirects and the idle connections.
//   - A source that cannot be reached, is late or fails for many paths is left alone for a while. One bad path,
//     however often it is asked for, shuts no other: what a connected origin fails with, other than being late, counts
//     once for a path in Params.BreakerWindow.
//   - An error names the source. The cause, which may name an address, is wrapped and not in the
//     message, because the message is shown to every client.
//
// One request, walked through: [Client.Get] asks the breaker of the source. It builds the URL of the
// first mirror from the base URL and the path. The transport looks the host up and dials; the dialer
// refuses every special address. The answer is 301, so the target is checked and requested. That
// answers 503, and after 50 to 100 ms the next try begins, within the same five seconds. It answers
// 200; its headers are checked and the first byte is read. Get returns an [Answer]. The caller reads
// Body to its end and closes it, which tells the breaker how the transfer ended.
package origin
