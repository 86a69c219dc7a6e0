package doctor

import (
	"context"
	"fmt"
	"os"
	"time"

	"allium/gateway/api"
	homedir "allium/node/home"
)

func checkTable(_ context.Context, e *exam) result {
	h := e.node.health
	if h.err != nil {
		return skipErr(h.err)
	}
	t := h.value.Table
	switch _, shut := e.gate("routing_table"); {
	case !shut:
		return result{}
	case t.Peers == 0:
		return finding(lonely(e), say("the routing table is empty"), "lookups find nothing",
			"see the check seeds, or `allium connect` to a peer")
	}
	return note(say("the routing table has %d peers, %d of which count; %d are needed", t.Peers, t.Have, t.Need),
		"lookups take longer, and may miss something", "wait some minutes; `allium peers` shows who is connected")
}

// lonely is the severity of knowing nobody: a testnet's first node knows nobody at first.
func lonely(e *exam) Severity {
	if e.testnet() {
		return Note
	}
	return Error
}

// manyPublic is the number of peers on the Internet from which on their networks are compared.
const manyPublic = 8

func checkDiversity(_ context.Context, e *exam) result {
	h := e.node.health
	t := h.value.Table
	switch {
	case h.err != nil:
		return skipErr(h.err)
	case t.Public < manyPublic:
		return skip("the routing table has too few peers on the Internet")
	case 2*t.Largest <= t.Public:
		return result{}
	}
	return warn(say("%d of %d peers of the routing table are in one network; they are in %d in all", t.Largest,
		t.Public, t.Networks), "whoever runs that network can hide content from this node",
		"connect to seeds in other networks (dht.bootstrap)")
}

func checkTwin(_ context.Context, e *exam) result {
	if e.node.health.err != nil {
		return skipErr(e.node.health.err)
	}
	g, shut := e.gate("identity")
	if !shut {
		return result{}
	}
	return fail(say("%s", g.Fix), "peers reach either of the two, and neither is found reliably",
		"stop one of the two; to give one another identity, move its identity.key away and run `allium init`")
}

// farClock is the smallest offset of the clock that is a warning. The gate clock shuts at 2 minutes.
const farClock = 30 * time.Second

// future is the largest time by which the date of a file may be ahead of the clock.
const future = 24 * time.Hour

func checkClock(_ context.Context, e *exam) result {
	const fix = "set the clock (timedatectl set-ntp true, or chrony)"
	if e.Node == nil {
		return clockOfFiles(e, fix)
	}
	if e.node.health.err != nil {
		return skipErr(e.node.health.err)
	}
	c := e.node.health.value.Clock
	offset := time.Duration(c.OffsetMS) * time.Millisecond
	direction := plain("ahead of")
	if offset < 0 {
		direction = "behind"
	}
	seen := say("this machine's clock is %s %s that of %d groups of peers",
		plain(offset.Abs().Round(time.Second).String()), direction, c.Voices)
	_, shut := e.gate("clock")
	switch {
	case shut:
		return fail(seen, "nothing is announced, and nothing is deleted because of its age", fix)
	case !c.Known:
		return skip(fmt.Sprintf("%d groups of peers have told their time, and %d are needed", c.Voices, c.Need))
	case offset.Abs() >= farClock:
		return warn(seen, "at 2 minutes the node stops to announce what it has", fix)
	}
	return result{}
}

// clockOfFiles compares the clock with the dates of files, while no node runs that could ask peers.
func clockOfFiles(e *exam, fix string) result {
	if e.Home == "" {
		return skip("no node answers")
	}
	for _, name := range []string{homedir.KeyFile, "config.toml"} {
		info, err := os.Stat(homedir.Path(e.Home, name))
		if err == nil && info.ModTime().Sub(e.Now()) > future {
			return warn(say("%s is dated %s, which is in the future", plain(name),
				plain(info.ModTime().UTC().Format(time.DateOnly))),
				"this machine's clock seems to be behind: others refuse what the node signs", fix)
		}
	}
	return skip("no node runs that could ask peers for their time")
}

// soonNames is the rest of its life from which on the record of a name is reported: it should be signed again long
// before that.
const soonNames = 24 * time.Hour

func checkNames(_ context.Context, e *exam) (all result) {
	names := e.node.names
	if names.err != nil {
		return skipErr(names.err)
	}
	for _, n := range names.value {
		what := say("the name %s", nameOf(n))
		switch {
		case n.Problem != "":
			all = all.and(fail(say("%s is sent no more: %s", what, plain(word(n.Problem))),
				"it will be gone when its record expires",
				"publish it again with `allium name publish`; if another node has its zone, let one alone publish"))
			continue
		case n.Value == "":
			continue // withdrawn
		}
		all = all.and(e.expires(what, n.NotAfter, soonNames, "then nobody can resolve it",
			"let the node run and connect it: it signs the record again; or `allium name publish` it"))
		if n.Error != nil && n.Peers == 0 {
			all = all.and(warn(say("no peer took the record of %s: %s", what, n.Error.Message),
				"nobody finds what it stands for now", "connect the node; it sends the record again by itself"))
		}
	}
	return all
}

// nameOf returns a name as its owner writes it.
func nameOf(n api.OwnName) string {
	if n.Short != "" {
		return n.Short
	}
	return n.Name
}
