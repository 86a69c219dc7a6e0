// Package hosts finds the website that the host of a request names: a label host of a root or a name, a domain of
// gateway.sites, or with gateway.dnslink a domain that the DNS has a link for.
//
// Invariants:
//
//   - [Finder.Find] does not wait, and takes the same time for 10 sites and for 10,000.
//   - A host is of the node or of a website, never of both.
//   - The DNS is asked within a deadline, and its answers are remembered within bounds. A request asks it once.
//
// One request, walked through: "Host: www.example.org:443". Find cuts off the port and looks the host up in the table
// of sites. It has none, so it compares the ends of the host with the gateway's own. The host is a domain and
// gateway.dnslink is set, so the answer is a [site.Site] with that Domain. The handler asks [Finder.Linked], which
// remembers what the DNS said, or asks it, and returns an address or a name.
package hosts
