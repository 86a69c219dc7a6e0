package allium

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers lists every package of the module and which of the module's own
// packages its code may import. A package that is not listed is an error: adding
// one is a decision. protocols/status, protocols/b3 and internal/* are open to
// all and not repeated, but internal/testkit, which only tests import, and that
// internal/* itself imports only internal/* and protocols/status.
var layers = map[string][]string{
	".": {},

	"protocols/address":    {},
	"protocols/answer":     {},
	"protocols/b3":         {},
	"protocols/bao":        {},
	"protocols/capability": {},
	"protocols/delimited":  {},
	"protocols/dht": {
		"protocols/delimited", "protocols/dht/allowance", "protocols/dht/dialback", "protocols/dht/kadhost",
		"protocols/dht/messages", "protocols/dht/namestore", "protocols/dht/persist", "protocols/dht/probes",
		"protocols/dht/routing", "protocols/dht/seeds", "protocols/dht/sweep", "protocols/kad", "protocols/name",
		"protocols/record",
	},
	"protocols/dht/allowance": {},
	"protocols/dht/dialback":  {},
	"protocols/dht/kadhost":   {"protocols/delimited"},
	"protocols/dht/messages":  {"protocols/name", "protocols/record"},
	"protocols/dht/model":     {},
	"protocols/dht/namestore": {"protocols/dht/persist", "protocols/name", "protocols/record"},
	"protocols/dht/persist":   {},
	"protocols/dht/probes":    {"protocols/kad"},
	"protocols/dht/records":   {},
	"protocols/dht/routing":   {"protocols/kad"},
	"protocols/dht/seeds":     {"protocols/record"},
	"protocols/dht/sweep":     {"protocols/kad"},
	"protocols/erasure":       {"protocols/record"},
	"protocols/gossip":        {},
	"protocols/hints":         {"protocols/delimited", "protocols/record"},
	"protocols/index": {
		"protocols/answer", "protocols/capability", "protocols/name", "protocols/oap", "protocols/record",
		"protocols/session",
	},
	"protocols/kad": {},
	"protocols/lan": {},
	"protocols/links": {
		"protocols/capability", "protocols/oap", "protocols/record", "protocols/session",
	},
	"protocols/manifest":      {},
	"protocols/name":          {"protocols/record"},
	"protocols/oap":           {},
	"protocols/object":        {"protocols/oap"},
	"protocols/record":        {},
	"protocols/session":       {"protocols/capability", "protocols/oap"},
	"protocols/session/model": {},
	"protocols/status":        {},
	"protocols/ticket":        {"protocols/record"},

	"internal/ballast":         {},
	"internal/cores":           {},
	"internal/deadline":        {},
	"internal/env":             {},
	"internal/filewatch":       {},
	"internal/guard":           {},
	"internal/heaviest":        {},
	"internal/inbound":         {},
	"internal/ipgroup":         {},
	"internal/jitter":          {},
	"internal/keyfile":         {},
	"internal/latch":           {},
	"internal/lazyregexp":      {},
	"internal/limits":          {},
	"internal/linked":          {},
	"internal/openmode":        {},
	"internal/natural":         {},
	"internal/ordered":         {},
	"internal/patience":        {},
	"internal/pebbledb":        {},
	"internal/printable":       {},
	"internal/privatefile":     {},
	"internal/ram":             {},
	"internal/sdnotify":        {},
	"internal/starting":        {},
	"internal/suggest":         {},
	"internal/tasks":           {},
	"internal/tracing":         {},
	"internal/testkit":         {"internal/limits"},
	"internal/testkit/promela": {},
	"internal/testkit/simnet":  {},

	"store": {
		"gateway/policy", "protocols/manifest", "store/admission", "store/arriving/partial",
		"store/arriving/resumable", "store/bucket/s3", "store/cache", "store/disk", "store/disk/damage",
		"store/disk/fsys", "store/disk/segment/codec", "store/gc", "store/lease", "store/meta", "store/moved",
		"store/objects", "store/pins", "store/quota", "store/ram/arena", "store/ram/memory", "store/scrub",
		"store/uses",
	},
	"store/admission":          {"store/meta"},
	"store/arriving/partial":   {"gateway/policy", "store/admission", "store/lease", "store/meta"},
	"store/arriving/resumable": {"store/admission", "store/lease", "store/meta", "store/quota"},
	"store/bloom":              {},
	"store/bucket/cloud": {
		"store/bucket/s3", "store/disk/damage", "store/disk/fsys", "store/disk/segment/codec", "store/disk/tables",
		"store/meta",
	},
	"store/bucket/s3": {},
	"store/cache":     {"store/meta"},
	"store/cluster": {
		"gateway/policy", "gateway/policy/audit", "gateway/policy/capabilities", "protocols/capability",
		"protocols/erasure", "protocols/oap", "protocols/object", "protocols/session", "store",
		"store/cluster/plan", "store/cluster/repair", "store/cluster/shards", "store/cluster/upkeep",
		"store/cluster/wire", "store/meta",
	},
	"store/cluster/durability": {"store/cluster/plan", "store/meta"},
	"store/cluster/intake": {
		"gateway/policy", "gateway/policy/audit", "protocols/capability", "protocols/object", "store",
		"store/cluster/wire", "store/meta", "store/quota",
	},
	"store/cluster/members": {"protocols/capability", "protocols/record",
		"store/cluster/offer", "store/cluster/plan"},
	"store/cluster/offer":      {"protocols/capability", "protocols/record"},
	"store/cluster/plan":       {"store/meta"},
	"store/cluster/plan/model": {},
	"store/cluster/repair":     {"resolver", "store", "store/gc", "store/meta"},
	"store/cluster/shards": {
		"gateway/policy", "protocols/erasure", "protocols/object", "store", "store/cluster/plan",
		"store/cluster/repair", "store/meta",
	},
	"store/cluster/upkeep": {
		"protocols/erasure", "store", "store/cluster/plan", "store/cluster/repair", "store/cluster/upkeep/proofs",
		"store/meta",
	},
	"store/cluster/upkeep/proofs": {"protocols/erasure", "protocols/record", "store/cluster/plan"},
	"store/cluster/wire": {
		"protocols/capability", "protocols/oap", "protocols/object", "protocols/record", "protocols/session",
		"store/cluster/plan", "store/meta",
	},
	"store/disk": {
		"gateway/policy", "store/bucket/cloud", "store/bucket/s3", "store/disk/blob", "store/disk/damage",
		"store/disk/fsys", "store/disk/segment", "store/disk/segment/codec", "store/disk/tables", "store/meta",
		"store/ram/arena",
	},
	"store/disk/blob": {
		"gateway/policy", "store/arriving/partial", "store/arriving/resumable", "store/disk/damage",
		"store/disk/fsys", "store/disk/tables", "store/meta",
	},
	"store/disk/damage": {"store/disk/fsys", "store/meta"},
	"store/disk/fsys":   {"store/meta"},
	"store/disk/segment": {
		"store/disk/damage", "store/disk/fsys", "store/disk/segment/codec", "store/disk/tables", "store/meta",
	},
	"store/disk/segment/codec": {"store/disk/tables", "store/meta"},
	"store/disk/tables":        {"store/bloom", "store/meta"},
	"store/gc": {
		"protocols/manifest", "store/admission", "store/bloom", "store/disk/damage", "store/lease", "store/meta",
		"store/ram/arena",
	},
	"store/lease": {},
	"store/meta":  {},
	"store/moved": {"store/meta"},
	"store/objects": {
		"protocols/manifest", "store/admission", "store/arriving/partial", "store/cache", "store/lease",
		"store/meta", "store/moved", "store/scrub", "store/uses",
	},
	"store/pins": {
		"store/admission", "store/gc", "store/lease", "store/meta", "store/moved", "store/quota", "store/uses",
	},
	"store/quota":      {"protocols/manifest", "store/meta"},
	"store/ram/arena":  {},
	"store/ram/memory": {"store/disk/damage", "store/disk/fsys", "store/meta", "store/ram/arena"},
	"store/scrub":      {"store/meta"},
	"store/storetest":  {"protocols/manifest", "store", "store/arriving/resumable", "store/bucket/s3", "store/meta"},
	"store/uses":       {"store/bloom", "store/meta"},

	"resolver": {
		"gateway/policy", "protocols/address", "protocols/dht/namestore", "protocols/name", "protocols/record",
		"resolver/names/lookup", "resolver/peerindex", "resolver/providers", "resolver/schedule", "resolver/trace",
		"resolver/transfer", "resolver/tree",
	},
	"resolver/model": {},
	"resolver/names": {
		"protocols/name", "protocols/record", "resolver/names/dnslink", "resolver/names/lookup",
		"resolver/names/zones", "resolver/trace",
	},
	"resolver/names/dnslink": {"protocols/address", "protocols/name"},
	"resolver/names/lookup": {
		"gateway/policy", "protocols/dht/namestore", "protocols/dht/probes", "protocols/name", "protocols/record",
		"resolver/providers", "resolver/trace",
	},
	"resolver/names/own":     {"protocols/name"},
	"resolver/names/updates": {"protocols/name"},
	"resolver/names/zones":   {"protocols/name"},
	"resolver/peerindex": {
		"protocols/dht/probes", "protocols/name", "protocols/record", "resolver/names/lookup", "resolver/providers",
	},
	"resolver/providers": {
		"protocols/answer", "protocols/dht/probes", "protocols/oap", "protocols/object", "protocols/record",
		"resolver/trace",
	},
	"resolver/schedule": {},
	"resolver/trace":    {},
	"resolver/transfer": {"protocols/object", "resolver/providers", "resolver/schedule", "resolver/trace"},
	"resolver/tree": {
		"gateway/policy", "protocols/manifest", "protocols/object", "resolver/providers", "resolver/trace",
		"resolver/transfer",
	},

	"gateway": {
		"gateway/admin", "gateway/api", "gateway/certs", "gateway/console", "gateway/content",
		"gateway/discovery", "gateway/exchange", "gateway/fill", "gateway/folder", "gateway/hosts",
		"gateway/openapi", "gateway/pack", "gateway/policy", "gateway/profiling", "gateway/proof",
		"gateway/server", "gateway/upload", "gateway/weblink",
	},
	"gateway/admin": {"gateway/api", "gateway/exchange", "gateway/policy",
		"protocols/address", "protocols/capability"},
	"gateway/api":                  {"protocols/address", "protocols/answer", "protocols/capability"},
	"gateway/api/client":           {"gateway/api"},
	"gateway/api/client/namewatch": {"gateway/api", "gateway/api/client"},
	"gateway/certs":                {},
	"gateway/certs/certstest":      {},
	"gateway/asset":                {"gateway/exchange"},
	"gateway/console":              {"gateway/asset", "gateway/exchange"},
	"gateway/content": {
		"gateway/api", "gateway/asset", "gateway/console", "gateway/content/byterange", "gateway/content/dates",
		"gateway/content/directories", "gateway/content/headers", "gateway/content/highlight", "gateway/content/kind",
		"gateway/content/mediatype", "gateway/content/pages", "gateway/content/rendering", "gateway/content/sorted",
		"gateway/content/text",
		"gateway/exchange", "gateway/hosts", "gateway/policy", "gateway/site", "gateway/verified/bundle",
		"protocols/address", "protocols/bao", "protocols/manifest", "protocols/ticket",
	},
	"gateway/content/byterange":   {"gateway/exchange"},
	"gateway/content/csvtable":    {"gateway/content/mediatype", "gateway/exchange"},
	"gateway/content/dates":       {},
	"gateway/content/directories": {"protocols/manifest"},
	"gateway/content/headers":     {"gateway/content/mediatype"},
	"gateway/content/highlight":   {},
	"gateway/content/kind":        {"gateway/content/mediatype", "protocols/manifest"},
	"gateway/content/sorted":      {"gateway/content/kind", "protocols/manifest"},
	"gateway/content/markdown":    {},
	"gateway/content/mediatype":   {},
	"gateway/content/pages": {
		"gateway/api", "gateway/content/kind", "gateway/content/mediatype", "gateway/content/qrcode",
		"gateway/content/sorted", "gateway/exchange", "protocols/manifest",
	},
	"gateway/content/qrcode": {},
	"gateway/content/rendering": {
		"gateway/content/csvtable", "gateway/content/kind", "gateway/content/markdown", "gateway/content/text",
	},
	"gateway/content/text": {"gateway/content/highlight", "gateway/content/mediatype", "gateway/exchange"},
	"gateway/discovery":    {"gateway/api", "gateway/exchange", "gateway/policy"},
	"gateway/exchange": {
		"gateway/api", "gateway/policy", "gateway/policy/audit", "gateway/site", "protocols/address", "protocols/capability",
	},
	"gateway/fill": {
		"gateway/content", "gateway/exchange", "gateway/fill/origin", "gateway/policy", "gateway/policy/audit",
		"protocols/bao",
	},
	"gateway/folder": {
		"gateway/content", "gateway/content/byterange", "gateway/exchange", "gateway/verified/bundle",
		"protocols/manifest",
	},
	"gateway/fill/model":  {},
	"gateway/fill/origin": {},
	"gateway/hosts":       {"gateway/api", "gateway/exchange", "gateway/site", "protocols/address"},
	"gateway/openapi":     {"gateway/api", "gateway/exchange"},
	"gateway/pack": {
		"gateway/api", "gateway/exchange", "gateway/pack/mbtiles", "gateway/pack/pmtiles", "gateway/pack/tile",
		"gateway/pack/viewer", "gateway/policy",
	},
	"gateway/profiling":           {"gateway/api", "gateway/exchange", "protocols/capability"},
	"gateway/proof":               {"gateway/asset", "gateway/exchange"},
	"gateway/pack/mbtiles":        {"gateway/pack/tile"},
	"gateway/pack/packtest":       {"gateway/pack/tile"},
	"gateway/pack/pmtiles":        {"gateway/pack/tile"},
	"gateway/pack/tile":           {},
	"gateway/pack/viewer":         {"gateway/asset", "gateway/exchange", "gateway/pack/tile"},
	"gateway/policy":              {"gateway/policy/audit", "protocols/capability", "protocols/name"},
	"gateway/policy/access":       {},
	"gateway/policy/audit":        {},
	"gateway/policy/capabilities": {"protocols/capability"},
	"gateway/policy/denylist":     {"protocols/address", "protocols/name"},
	"gateway/server": {
		"gateway/certs", "gateway/exchange", "gateway/hosts", "gateway/policy", "gateway/policy/audit",
		"gateway/server/conns", "gateway/server/sockets", "gateway/site",
		"protocols/capability",
	},
	"gateway/server/conns":   {"gateway/server/sockets"},
	"gateway/server/sockets": {"gateway/api"},
	"gateway/site":           {"protocols/manifest", "protocols/name"},
	"gateway/weblink": {
		"gateway/api", "gateway/asset", "gateway/content", "gateway/exchange", "gateway/server", "protocols/ticket",
	},
	"gateway/upload": {
		"gateway/api", "gateway/exchange", "gateway/policy", "protocols/address", "protocols/capability",
	},
	"gateway/verified":        {"gateway/api", "gateway/verified/bundle", "protocols/bao"},
	"gateway/verified/bundle": {"protocols/bao", "protocols/manifest"},

	"node": {
		"gateway", "gateway/api", "gateway/certs", "gateway/fill", "gateway/policy", "gateway/policy/access",
		"gateway/policy/audit", "gateway/policy/capabilities", "gateway/policy/denylist", "gateway/weblink",
		"node/config", "node/edge", "node/fault", "node/files/publish", "node/films", "node/health",
		"node/home", "node/local",
		"node/local/events", "node/local/opener", "node/local/peerlinks",
		"node/local/sent",
		"node/p2p",
		"node/p2p/reach", "node/readiness", "node/readiness/amnesia", "node/readiness/clock",
		"node/readiness/descriptors", "node/reload", "node/supervise", "protocols/capability", "protocols/dht",
		"protocols/dht/messages", "protocols/dht/namestore", "protocols/dht/probes", "protocols/dht/records",
		"protocols/dht/seeds", "protocols/gossip", "protocols/hints", "protocols/index", "protocols/lan",
		"protocols/links", "protocols/name", "protocols/oap", "protocols/object", "protocols/record",
		"protocols/session", "protocols/ticket", "resolver", "resolver/names", "resolver/names/dnslink",
		"resolver/names/own", "resolver/names/updates", "resolver/names/zones", "resolver/providers",
		"resolver/trace", "store", "store/cluster",
		"store/cluster/intake", "store/cluster/members", "store/cluster/offer", "store/cluster/plan",
		"store/cluster/repair", "store/cluster/shards", "store/cluster/upkeep", "store/disk", "store/meta",
	},
	"node/edge": {
		"gateway/api", "gateway/content", "gateway/fill", "gateway/pack", "gateway/pack/tile", "gateway/policy",
		"node/config", "node/home", "node/local/opener", "node/local/reading", "node/readiness", "protocols/manifest",
		"resolver/names", "resolver/names/lookup", "store",
	},
	"node/config": {
		"gateway", "gateway/fill", "gateway/pack", "gateway/policy/audit", "gateway/server",
		"node/config/document", "node/p2p", "protocols/dht", "protocols/gossip", "protocols/hints",
		"protocols/object", "protocols/session", "resolver", "resolver/names/zones", "store",
		"store/cluster/durability", "store/cluster/offer", "store/meta",
	},
	"node/config/document": {},
	"node/doctor": {
		"gateway/api", "gateway/api/client", "gateway/certs", "node/config", "node/home", "node/p2p",
		"node/readiness/descriptors", "protocols/dht/seeds", "protocols/ticket", "store", "store/bucket/s3",
	},
	"node/website": {"gateway/api", "node/doctor", "protocols/name", "resolver/names/dnslink"},
	"node/films":   {},
	"node/fault": {
		"gateway/api", "protocols/delimited", "protocols/dht", "protocols/oap", "protocols/object",
		"protocols/record",
	},
	"node/files": {
		"gateway/api", "node/files/addcache", "node/files/archive", "node/files/extract", "node/homefiles",
		"protocols/manifest",
	},
	"node/files/addcache": {},
	"node/files/addpaths": {},
	"node/files/archive":  {"protocols/manifest"},
	"node/files/extract":  {"gateway/api", "protocols/manifest"},
	"node/files/follow":   {"gateway/api", "node/files/addcache", "node/files/extract", "protocols/manifest"},
	"node/files/publish":  {"gateway/policy", "protocols/dht", "protocols/hints", "store", "store/meta"},
	"node/files/watch":    {},
	"node/health": {
		"gateway/api", "node/readiness/clock", "node/readiness/descriptors", "protocols/dht/routing", "store",
	},
	"node/home":      {"node/config", "node/p2p"},
	"node/homefiles": {},
	"node/local": {
		"gateway/api", "gateway/content", "gateway/policy", "gateway/upload", "gateway/verified", "gateway/weblink",
		"node/files",
		"node/files/archive", "node/local/opener", "node/local/peerlinks", "node/local/reading", "node/p2p/reach",
		"protocols/address",
		"protocols/capability", "protocols/dht", "protocols/dht/probes", "protocols/dht/routing", "protocols/index",
		"protocols/kad", "protocols/links", "protocols/name", "protocols/record", "protocols/session",
		"protocols/ticket", "resolver",
		"resolver/names", "resolver/names/lookup", "resolver/names/own", "resolver/providers", "resolver/trace",
		"store", "store/arriving/partial", "store/arriving/resumable", "store/cluster/plan",
		"store/cluster/upkeep", "store/gc", "store/meta", "store/quota",
	},
	"node/local/events": {"gateway/api", "protocols/name", "resolver"},
	"node/local/opener": {
		"gateway/content", "gateway/policy", "gateway/verified", "protocols/bao", "protocols/manifest",
		"protocols/object", "resolver", "resolver/trace", "store",
	},
	"node/local/peerlinks": {
		"gateway/api", "gateway/policy", "gateway/weblink", "protocols/links", "protocols/record",
	},
	"node/local/reading": {
		"gateway/api", "gateway/content", "gateway/policy", "gateway/verified", "node/local/opener",
		"protocols/address", "protocols/manifest", "resolver", "resolver/names", "resolver/names/lookup", "store",
	},
	"node/local/sent":            {},
	"node/p2p":                   {"node/p2p/reach"},
	"node/p2p/reach":             {},
	"node/readiness":             {"gateway/api"},
	"node/readiness/amnesia":     {"node/config"},
	"node/readiness/clock":       {"protocols/session"},
	"node/readiness/descriptors": {"node/config", "store"},
	"node/reload":                {"gateway/api", "node/config"},
	"node/reload/model":          {},
	"node/supervise":             {},

	"testnet": {
		"gateway/api", "gateway/api/client", "gateway/policy/capabilities", "node", "node/config", "node/files",
		"node/home", "node/p2p", "protocols/manifest", "protocols/name", "resolver/names/zones", "testnet/script",
	},
	"testnet/dhtsim":   {"protocols/kad"},
	"testnet/fetchsim": {"resolver/providers", "resolver/schedule"},
	"testnet/script":   {},

	"cmd/allium": {
		"cmd/allium/cli", "cmd/allium/daemon", "cmd/allium/diagnosis", "cmd/allium/failure", "cmd/allium/fileio",
		"cmd/allium/naming", "cmd/allium/network", "cmd/allium/packs", "cmd/allium/reference",
		"cmd/allium/replication", "cmd/allium/security", "cmd/allium/settings", "cmd/allium/source",
		"cmd/allium/storage", "cmd/allium/testbed", "gateway/api", "node", "node/p2p", "protocols/ticket",
	},
	"cmd/allium/adding": {
		"cmd/allium/cli", "cmd/allium/term", "gateway/api", "gateway/api/client", "gateway/site", "node/files",
		"node/files/addcache", "node/files/addpaths", "node/home", "node/homefiles",
	},
	"cmd/allium/cli": {
		"cmd/allium/failure", "cmd/allium/term", "gateway/api", "gateway/api/client", "node", "node/config",
		"node/home", "node/homefiles",
	},
	"cmd/allium/daemon": {
		"cmd/allium/cli", "cmd/allium/failure", "cmd/allium/replication", "cmd/allium/settings", "cmd/allium/term",
		"gateway/api", "node", "node/config", "node/home", "node/p2p", "node/readiness/amnesia", "node/reload",
	},
	"cmd/allium/diagnosis": {
		"cmd/allium/cli", "cmd/allium/drawing", "cmd/allium/failure", "cmd/allium/term", "gateway/api",
		"gateway/api/client", "node", "node/config", "node/doctor", "node/home", "node/p2p", "node/website",
	},
	"cmd/allium/drawing": {"cmd/allium/term", "gateway/api"},
	"cmd/allium/failure": {},
	"cmd/allium/fileio": {
		"cmd/allium/adding", "cmd/allium/cli", "cmd/allium/drawing", "cmd/allium/failure", "cmd/allium/replication",
		"cmd/allium/source", "cmd/allium/term", "gateway/api", "gateway/api/client", "gateway/verified", "node",
		"node/files", "node/local/sent", "protocols/address", "protocols/capability", "resolver/names", "store/meta",
	},
	"cmd/allium/naming": {
		"cmd/allium/adding", "cmd/allium/cli", "cmd/allium/failure", "cmd/allium/source", "cmd/allium/term",
		"gateway/api", "gateway/api/client", "gateway/api/client/namewatch", "gateway/site", "node/files/follow",
		"node/files/watch", "node/website", "protocols/address", "protocols/name", "resolver/names/dnslink",
		"resolver/names/zones",
	},
	"cmd/allium/network": {
		"cmd/allium/cli", "cmd/allium/diagnosis", "cmd/allium/failure", "cmd/allium/source", "cmd/allium/term",
		"gateway/api", "gateway/api/client", "node", "node/home",
	},
	"cmd/allium/packs": {
		"cmd/allium/cli", "cmd/allium/failure", "cmd/allium/settings", "cmd/allium/term", "gateway/api",
		"gateway/api/client", "gateway/pack", "node/edge", "node/home",
	},
	"cmd/allium/reference": {"cmd/allium/cli", "cmd/allium/failure", "node", "node/config"},
	"cmd/allium/replication": {
		"cmd/allium/cli", "cmd/allium/failure", "cmd/allium/term", "gateway/api", "store/meta",
	},
	"cmd/allium/security": {
		"cmd/allium/cli", "cmd/allium/failure", "cmd/allium/term", "gateway/policy/capabilities", "node",
		"node/home", "protocols/address", "protocols/capability", "protocols/ticket",
	},
	"cmd/allium/settings": {"cmd/allium/cli", "cmd/allium/failure", "gateway/api", "node", "node/config"},
	"cmd/allium/source": {
		"cmd/allium/cli", "cmd/allium/failure", "cmd/allium/term", "gateway/api", "gateway/api/client",
		"gateway/verified", "node", "node/config", "node/home", "node/local", "protocols/ticket", "store",
	},
	"cmd/allium/storage": {
		"cmd/allium/adding", "cmd/allium/cli", "cmd/allium/failure", "cmd/allium/replication", "cmd/allium/source",
		"cmd/allium/term", "gateway/api", "gateway/api/client", "node", "protocols/ticket", "store/meta",
	},
	"cmd/allium/term": {"gateway/api"},
	"cmd/allium/testbed": {
		"cmd/allium/cli", "cmd/allium/failure", "cmd/allium/term", "gateway/api", "testnet", "testnet/dhtsim",
		"testnet/fetchsim", "testnet/script",
	},
}

// inTests lists what the tests of a package may import beyond that. internal/testkit
// and store/storetest are open to all tests.
var inTests = map[string][]string{
	"protocols/hints":  {"protocols/gossip"},
	"protocols/object": {"protocols/session"},

	"store": {"store/disk/tables"},

	"resolver": {"protocols/dht/probes", "protocols/manifest", "protocols/object"},
	"resolver/names/updates": {
		"gateway/policy", "protocols/dht", "protocols/dht/probes", "protocols/gossip", "protocols/record",
		"resolver/names/lookup",
	},

	"gateway": {
		"gateway/api/client", "gateway/certs", "gateway/certs/certstest", "gateway/pack/packtest", "gateway/pack/tile",
		"gateway/pack/viewer", "gateway/policy/audit", "gateway/policy/denylist", "gateway/server/conns",
		"gateway/verified", "protocols/bao", "protocols/capability", "protocols/manifest", "protocols/name",
		"protocols/ticket",
	},
	"gateway/certs":        {"gateway/certs/certstest"},
	"node/website":         {"gateway/certs/certstest"},
	"gateway/console":      {"gateway/api"},
	"gateway/pack":         {"gateway/pack/packtest"},
	"gateway/pack/pmtiles": {"gateway/pack/packtest"},

	"node": {
		"gateway/api/client", "gateway/certs/certstest", "gateway/pack", "gateway/pack/packtest", "gateway/pack/pmtiles",
		"gateway/pack/tile", "gateway/verified", "node/files", "node/files/addcache", "node/homefiles", "protocols/bao",
		"protocols/manifest", "store/cluster/wire",
	},
	"node/doctor":            {"node/p2p/reach"},
	"node/homefiles":         {"protocols/capability"},
	"node/local/reading":     {"node/files"},
	"node/readiness/amnesia": {"node/p2p"},
	"node/reload":            {"node/p2p"},

	"cmd/allium": {
		"cmd/allium/adding", "cmd/allium/drawing", "cmd/allium/term", "gateway/api/client", "node/config", "node/home",
		"testnet", "testnet/script",
	},
}

// floors lists the rooms from the ground up. A package imports from its own floor and from lower ones.
var floors = [][]string{
	{"internal", "protocols"},
	{"gateway/policy", "gateway/api"},
	{"store", "resolver", "gateway"}, // side by side
	{"store/cluster"},
	{"node"},
	{"testnet", "cmd"},
}

// sideBySide is the floor whose rooms never import each other.
const sideBySide = 2

// mayImportParent lists the packages that import the one that they lie in, of their own room: a suite and a client.
var mayImportParent = []string{"gateway/api/client", "gateway/api/client/namewatch", "store/storetest"}

// roomOf returns the room of a package and its floor, -1 for a package in no room.
func roomOf(pkg string) (room string, floor int) {
	floor = -1
	for i, rooms := range floors {
		for _, r := range rooms {
			if (pkg == r || strings.HasPrefix(pkg, r+"/")) && len(r) > len(room) {
				room, floor = r, i
			}
		}
	}
	return room, floor
}

// forbiddenEdge returns why pkg may not import own by the rules of floors and rooms, or "".
func forbiddenEdge(pkg, own string) string {
	room, floor := roomOf(pkg)
	below, lower := roomOf(own)
	switch {
	case pkg == ".":
		return ""
	case floor < 0 || lower < 0:
		return "a package outside of every room"
	case lower > floor:
		return "it lies on a higher floor"
	case room != below && floor == sideBySide && lower == sideBySide:
		return "the rooms lie side by side; declare the interface that you need"
	case room == below && strings.HasPrefix(pkg, own+"/") && !slices.Contains(mayImportParent, pkg):
		return "it is the package around this one"
	}
	return ""
}

// TestFloors holds the table of imports against the rules of floors and rooms, and the names of packages apart.
func TestFloors(t *testing.T) {
	t.Parallel()
	for pkg, edges := range layers {
		for _, own := range edges {
			if why := forbiddenEdge(pkg, own); why != "" {
				t.Errorf("%s may not import %s: %s", pkg, own, why)
			}
		}
	}
	bases := map[string]string{}
	for pkg := range layers {
		base := path.Base(pkg)
		if other := bases[base]; other != "" && base != "model" {
			t.Errorf("%s and %s share a name", pkg, other)
		}
		bases[base] = pkg
	}
	for _, c := range [][2]string{
		{"protocols/dht", "store"}, {"gateway/policy/audit", "gateway/exchange"}, {"store/gc", "resolver"},
		{"resolver", "gateway/content"}, {"store/gc", "store/cluster/plan"}, {"store/cluster/plan", "node"},
		{"node/files/follow", "node/files"}, {"store/gc", "store"}, {"elsewhere", "store"},
	} {
		if forbiddenEdge(c[0], c[1]) == "" {
			t.Errorf("%s may import %s", c[0], c[1])
		}
	}
}

// libp2pHosts are the import paths that only node/p2p and tests may use.
var libp2pHosts = []string{
	"github.com/libp2p/go-libp2p",
	"github.com/libp2p/go-libp2p/p2p/...",
	"github.com/libp2p/go-libp2p/x/...",
}

func TestArchitecture(t *testing.T) {
	t.Parallel()
	comments, used := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin" ||
				base == "bench" || base == "tools") { // modules of their own
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(name))
		problems, documented, err := check(pkg, name, src, used)
		if err != nil {
			return err
		}
		for _, p := range problems {
			t.Error(p)
		}
		comments[pkg] = comments[pkg] || documented
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg, ok := range comments {
		if !ok {
			t.Errorf("%s: no package comment", pkg)
		}
	}
	for _, table := range []map[string][]string{layers, inTests} {
		for pkg, edges := range table {
			for _, own := range edges {
				if !used[pkg+" "+own] {
					t.Errorf("%s does not import %s: take it out of the table", pkg, own)
				}
			}
		}
	}
}

// check returns what is wrong with one file, and whether it carries the package
// comment. It notes in used which own packages the file imports ("importer
// imported").
func check(pkg, name string, src []byte, used map[string]bool) (problems []string, documented bool, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return nil, false, err
	}
	testFile := strings.HasSuffix(name, "_test.go")
	test := testFile || pkg == "store/storetest" || strings.HasPrefix(pkg, "internal/testkit") // libraries of tests
	say := func(at token.Pos, what string) {
		problems = append(problems, fset.Position(at).String()+": "+what)
	}
	allowed, listed := layers[pkg]
	if !listed {
		say(f.Package, "package "+pkg+" is not in the layer table of arch_test.go")
	}
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, false, err
		}
		if own, ok := strings.CutPrefix(p, "allium/"); ok && own != pkg {
			used[pkg+" "+own] = true
			if !importable(pkg, own, allowed, test) {
				say(spec.Pos(), pkg+" may not import "+own)
			}
		}
		if !test && pkg != "node/p2p" && pkg != "node/p2p/reach" && matches(p, libp2pHosts) {
			say(spec.Pos(), "only node/p2p builds libp2p hosts, "+pkg+" may not import "+p)
		}
	}
	if !test {
		checkCode(pkg, fset, f, say)
	}
	return problems, f.Doc != nil && !testFile, nil
}

// importable applies the layer table.
func importable(pkg, own string, allowed []string, test bool) bool {
	if strings.HasPrefix(own, "internal/testkit") || own == "store/storetest" {
		return test
	}
	internal := func(p string) bool { return strings.HasPrefix(p, "internal/") }
	switch {
	case own == "protocols/status" || internal(own) || slices.Contains(allowed, own):
		return true
	case own == "protocols/b3" && !internal(pkg):
		return true
	}
	return test && slices.Contains(inTests[pkg], own)
}

// matches reports whether p is one of the patterns or, for "x/...", below it.
func matches(p string, patterns []string) bool {
	for _, pat := range patterns {
		if root, tree := strings.CutSuffix(pat, "/..."); p == root || tree && strings.HasPrefix(p, root+"/") {
			return true
		}
	}
	return false
}

// checkCode applies the rules on goroutines, contexts, channels and errgroups.
func checkCode(pkg string, fset *token.FileSet, f *ast.File, say func(token.Pos, string)) {
	bounds := map[int]bool{} // lines with a "// bound:" comment
	for _, g := range f.Comments {
		for _, c := range g.List {
			if strings.HasPrefix(c.Text, "// bound:") {
				bounds[fset.Position(c.Pos()).Line] = true
			}
		}
	}
	groups, registry := 0, 0
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			say(n.Pos(),
				"a bare go statement: use sync.WaitGroup.Go or an errgroup with a limit, so that somebody waits")
		case *ast.CompositeLit:
			if isSelector(n.Type, "errgroup", "Group") {
				groups++
			}
		case *ast.ValueSpec:
			if isSelector(n.Type, "errgroup", "Group") {
				groups++
			}
		case *ast.SelectorExpr:
			if n.Sel.Name == "SetLimit" {
				registry++
			}
		case *ast.CallExpr:
			switch {
			case (isSelector(n.Fun, "context", "Background") || isSelector(n.Fun, "context", "TODO")) &&
				!strings.HasPrefix(pkg, "cmd/"):
				say(n.Pos(), "a context out of nowhere: take the caller's")
			case isSelector(n.Fun, "errgroup", "WithContext"):
				groups++
			case pkg != "internal/limits" && bufferedChan(n) && !bounds[fset.Position(n.Pos()).Line]:
				say(n.Pos(), "a buffered channel that does not say what bounds it (// bound: …)")
			}
		}
		return true
	})
	if groups > registry {
		say(f.Package, "an errgroup without SetLimit")
	}
}

// bufferedChan reports make(chan T, n) with n other than the literals 0 and 1.
func bufferedChan(call *ast.CallExpr) bool {
	id, ok := call.Fun.(*ast.Ident)
	if !ok || id.Name != "make" || len(call.Args) != 2 {
		return false
	}
	if _, ok := call.Args[0].(*ast.ChanType); !ok {
		return false
	}
	lit, ok := call.Args[1].(*ast.BasicLit)
	return !ok || lit.Value != "0" && lit.Value != "1"
}

func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == pkg
}

// TestArchitectureBites feeds the check what it must refuse.
func TestArchitectureBites(t *testing.T) {
	t.Parallel()
	for want, src := range map[string]string{
		"may not import gateway":   "import _ \"allium/gateway\"",
		"only node/p2p builds":     "import _ \"github.com/libp2p/go-libp2p/p2p/host/basic\"",
		"bare go statement":        "func f() { go f() }",
		"out of nowhere":           "import \"context\"\nvar _ = context.Background()",
		"does not say what bounds": "var c = make(chan int, 8)",
		"an errgroup without":      "import \"golang.org/x/sync/errgroup\"\nvar g errgroup.Group",
	} {
		problems, _, err := check("store", "store/x.go", []byte("package store\n"+src+"\n"), map[string]bool{})
		if err != nil {
			t.Fatal(err)
		}
		if len(problems) != 1 || !strings.Contains(problems[0], want) {
			t.Errorf("%q gave %q, want %q", src, problems, want)
		}
	}
	if problems, _, _ := check("nowhere", "nowhere/x.go", []byte("package nowhere\n"),
		map[string]bool{}); len(problems) != 1 {
		t.Errorf("an unlisted package passes: %q", problems)
	}
	for _, src := range []string{"var c = make(chan int, 8) // bound: eight", "var c = make(chan int, 1)",
		"func f() { defer func() {}() }"} {
		if problems, _, _ := check("store", "store/x.go", []byte("package store\n"+src+"\n"),
			map[string]bool{}); len(problems) != 0 {
			t.Errorf("%q gave %q", src, problems)
		}
	}
}
