package doctor

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"allium/protocols/status"
	"allium/store"
)

func checkDamage(_ context.Context, e *exam) result {
	if e.node.health.err != nil {
		return skipErr(e.node.health.err)
	}
	if g, shut := e.gate("store_integrity"); shut {
		return fail(say("%s", g.Fix), "nothing more is stored until that is decided",
			"see `allium store damage` and docs/running/alerts.md")
	}
	if g, shut := e.gate("store_writes"); shut {
		return fail(say("%s", g.Fix), "nothing more is stored", "mend the disk and restart the node")
	}
	return result{}
}

func checkPins(_ context.Context, e *exam) result {
	d := e.node.copies
	if status.Of(d.err) == status.Unsupported {
		return skip("the node joins no cluster")
	}
	if d.err != nil {
		return skipErr(d.err)
	}
	c := d.value
	var all result
	if c.Lost > 0 {
		all = all.and(fail(say("%d objects with a target are lost: every member said that it has nothing", c.Lost),
			"they cannot be read", "restore them from elsewhere and add them again; `allium durability` lists them"))
	}
	if c.AtRisk > 0 {
		all = all.and(warn(say("%d of %d objects have fewer copies than their pins ask for", c.AtRisk, c.Objects),
			"they are lost if more members go", "`allium durability` says which members are gone or full"))
	}
	if c.Beyond != nil && c.Beyond.Objects > 0 {
		all = all.and(warn(say("%d objects ask for more copies than the cluster has members (%d)", c.Beyond.Objects,
			len(c.Members)), "they never have the copies that they ask for",
			"add members, or lower the target with `allium pin add --rf`"))
	}
	if c.Unplanned > 0 {
		all = all.and(warn(say("%d objects with a target are not planned, as there are too many", c.Unplanned),
			"they get no copies from this node", "spread the pins over several nodes"))
	}
	return all
}

// bucketHost returns the host of the bucket, or "" if the node uses none.
func bucketHost(e *exam) string {
	if e.Config.Store.Backend != store.BackendS3 {
		return ""
	}
	u, err := url.Parse(e.Config.Store.S3.Endpoint)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func checkBucket(ctx context.Context, e *exam) result {
	const impact = "nothing can be stored, and only what is on this machine can be read"
	if e.Node != nil {
		g, shut := e.gate("store_bucket")
		if !shut {
			return result{}
		}
		return fail(say("%s", g.Fix), impact, "see docs/running/bucket.md#when-something-fails")
	}
	if e.Config.Store.Backend != store.BackendS3 {
		return skip("the store is in no bucket")
	}
	err := e.Network.Bucket(ctx, e.Config.Store.S3)
	const network = "check the network and store.s3.endpoint"
	switch {
	case err == nil:
		return result{}
	case ctx.Err() != nil:
		return fail(say("the bucket does not answer"), impact, network)
	case status.Of(err).Exit() == status.Forbidden.Exit():
		return fail(say("the bucket refuses these credentials: %s", Reason(err)), impact,
			"correct the file of store.s3.credentials_file, and the rights of its user")
	}
	return fail(say("the bucket cannot be used: %s", Reason(err)), impact, network+"; store.s3.url names the bucket")
}

func checkVersion(_ context.Context, e *exam) result {
	v := e.node.version
	switch {
	case v.err != nil:
		return skipErr(v.err)
	case v.value.Version == e.Version.Version && v.value.Commit == e.Version.Commit:
		return result{}
	}
	return note(say("the node is %s (%s), and this command is %s (%s)", plain(word(v.value.Version)),
		plain(word(v.value.Commit)), plain(word(e.Version.Version)), plain(word(e.Version.Commit))),
		"the node runs without what was changed since", "restart the node")
}

// word returns a version or another word of a program, and "?" if it is none. An empty text stays empty.
func word(s string) string {
	fine := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-+_()", r)
	}
	if len(s) > maxWord || strings.IndexFunc(s, func(r rune) bool { return !fine(r) }) >= 0 {
		return "?"
	}
	return s
}

// maxWord bounds the bytes of a word.
const maxWord = 64

// How many goroutines a node may have, by what it does: more than that it does not need, and it may leak them.
const (
	someGoroutines      = 3000 // services, workers, listeners, requests over HTTP
	goroutinesPerConn   = 40
	goroutinesPerStream = 6
)

func checkGoroutines(_ context.Context, e *exam) result {
	if e.node.health.err != nil {
		return skipErr(e.node.health.err)
	}
	p := e.node.health.value.Process
	most := someGoroutines + goroutinesPerConn*p.Conns + goroutinesPerStream*p.Streams
	if p.Goroutines <= most {
		return result{}
	}
	return warn(say("the node has %d goroutines, with %d connections and %d streams", p.Goroutines, p.Conns, p.Streams),
		"its memory grows until it is killed: this is a bug",
		"report it with `allium doctor --bundle FILE`, then restart the node")
}

// covered are the gates that other checks report.
var covered = []string{
	"identity", "clock", "store_bucket", "tls_certificate", "seed_manifest", "bootstrap", "routing_table", "durability",
	"store_integrity", "store_writes",
}

func checkReadiness(_ context.Context, e *exam) (all result) {
	if e.node.health.err != nil {
		return skipErr(e.node.health.err)
	}
	for _, g := range e.node.health.value.Readiness.Gates {
		if !g.Ready && !slices.Contains(covered, g.Name) {
			all = all.and(fail(say("the gate %s is shut: %s", plain(word(g.Name)), g.Fix),
				"the node refuses a part of its work", "see docs/running/readiness.md"))
		}
	}
	return all
}
