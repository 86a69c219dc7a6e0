// Package site says how a website is served from a directory: the host that is the origin of a root or a name, and what
// the files _redirects, _headers and site.json of its root mean. It is pure: it reads no object and asks nobody.
//
// The host of a root is <CID>.b3.<host>, where <CID> is the address as a CIDv1 in base32. That of a name is
// <label>.n3.<host>, where <label> has at most 63 octets and one of three forms (docs/adr/0035-origins.md):
//
//	blog-00wj…1wqv    label, hyphen, and the 50 base36 digits of the zone's key
//	docs-alice        a domain or a short name with "-" for each "." and "--" for each "-"
//	mzxw6ytb…oi7q     52 base32 digits: the SHA-256 of any other name, for nodes that remember it
//
// No two names have one label: the first form ends with 50 digits, which no text of the second form does, and the third
// has no hyphen.
package site
