package api

import (
	"context"
	"iter"
	"time"

	"allium/protocols/answer"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// Finder finds objects and their providers, and tells others of objects.
type Finder interface {
	// Fetch downloads an object into the store. With a directory it downloads
	// everything below it.
	Fetch(ctx context.Context, key string, progress ProgressFunc) (Fetched, error)
	// Share makes a ticket for an object that the store holds, and pins it with everything below
	// it. The pin has the label "shared", for which the object is not announced. If the node knows
	// a peer, Share waits up to 5 s until one has confirmed an address, or a relay is there.
	Share(ctx context.Context, key string, o ShareOptions) (Shared, error)
	// ShareWeb opens a link with which a browser gets an object that the store holds, pins the object as
	// Share does, and yields what happens. The first item has the places of the link. The link lasts until
	// the caller stops, it expires, or its last download is whole.
	ShareWeb(ctx context.Context, key string, o WebOptions) iter.Seq2[WebShared, error]
	// Resolve finds the object that a key names and its providers.
	Resolve(ctx context.Context, key string, q Query) (Resolved, error)
	// FindProviders yields the other peers that claim to have the object, the best first.
	FindProviders(ctx context.Context, key string, o FindOptions) iter.Seq2[Provider, error]
	// Why returns the record of a lookup: the one with that ID, or the latest one of that
	// key that was not answered at once. The latest lookups are remembered, and failed and
	// slow ones longer than others.
	Why(ctx context.Context, keyOrID string) (Why, error)
	// Film returns what Go's execution tracer saw during a lookup; not_found says that it was not kept.
	Film(ctx context.Context, lookup string) (Film, error)
	// Announce tells the network that this node provides the object.
	Announce(ctx context.Context, key string) (Announced, error)
}

var finderVerbs = []*Verb{
	verbFetch.Verb, verbShare.Verb, verbShareWeb.Verb, verbResolve.Verb, verbWhy.Verb, verbFilm.Verb,
	verbAnnounce.Verb, adminReindex.Verb,
}

type shareRequest struct {
	keyRequest
	ShareOptions
}

type shareWebRequest struct {
	keyRequest
	WebOptions
}

type resolveRequest struct {
	keyRequest
	Query
}

// ErrLookupID returns the error of a text that is not the ID of a lookup.
func ErrLookupID(text string) error {
	return status.Errorf(status.BadRequest,
		"cannot read %q: the ID of a lookup has 16 lowercase hexadecimal digits", text)
}

type whyRequest struct {
	Key string `query:"key,required"`
}

type filmRequest struct {
	ID string `query:"id,required" doc:"the ID of a lookup"`
}

var (
	verbFetch = run(Spec{
		ID: "Fetch", Path: "fetch", Op: capability.Fetch, Tree: true, Slow: true,
		Doc: "Fetches an object and everything below it into the store.", Answer: "progress, and what was fetched",
	}, func(n Node, ctx context.Context, r AskedRequest, progress ProgressFunc, _ func(none) error) (Fetched, error) {
		return n.Fetch(ctx, r.Key, progress)
	})
	verbShare = value(Spec{
		ID: "Share", Path: "share", Op: capability.Pin, Tree: true,
		Doc:    "Makes a ticket for an object that the store holds, and pins it without announcing it.",
		Answer: "the ticket",
	}, func(n Node, ctx context.Context, r shareRequest) (Shared, error) {
		return n.Share(ctx, r.Key, r.ShareOptions)
	})
	verbShareWeb = items(Spec{
		ID: "ShareWeb", Path: "share/web", Op: capability.Pin, Tree: true, Slow: true,
		Doc:    "Opens a link with which a browser gets an object, and pins it without announcing it.",
		Answer: "the link, and its downloads as they happen; the link ends with the request",
	}, func(n Node, ctx context.Context, r shareWebRequest) iter.Seq2[WebShared, error] {
		return n.ShareWeb(ctx, r.Key, r.WebOptions)
	})
	verbResolve = value(Spec{
		ID: "Resolve", Path: "resolve",
		Doc:    "Finds the object that a key names and its providers, the best first.",
		Answer: "the object and its providers",
	}, func(n Node, ctx context.Context, r resolveRequest) (Resolved, error) {
		if err := r.Check(); err != nil {
			return Resolved{}, err
		}
		return n.Resolve(ctx, r.Key, r.Query)
	})
	verbWhy = value(Spec{
		ID: "Why", Path: "why", Manages: true,
		Doc:    "Returns the record of a lookup: what it asked, who answered, and where the time went.",
		Answer: "the lookup",
	}, func(n Node, ctx context.Context, r whyRequest) (Why, error) { return n.Why(ctx, r.Key) })
	verbFilm = value(Spec{
		ID: "Film", Path: "why/film", Manages: true,
		Doc:    "Returns what Go's execution tracer saw during a lookup that was far slower than others of its class.",
		Answer: "the trace",
	}, func(n Node, ctx context.Context, r filmRequest) (Film, error) { return n.Film(ctx, r.ID) })
	verbAnnounce = value(Spec{
		ID: "Announce", Path: "announce", Op: capability.Announce,
		Doc: "Publishes that this node provides an object.", Answer: "how many peers stored the record",
	}, byKey(Node.Announce))
	adminReindex = value(Spec{
		ID: "AdminReindex", Admin: "reindex", Op: capability.Announce,
		Doc:    "Publishes again that this node provides an object, or every pinned object.",
		Answer: "what was published",
	}, func(n Node, ctx context.Context, r ReindexRequest) (Reindexed, error) { return reindex(ctx, n, r) })
)

// reindex publishes one object, or every pinned one.
func reindex(ctx context.Context, n Node, r ReindexRequest) (done Reindexed, err error) {
	if r.Key != "" {
		if _, err := n.Announce(ctx, r.Key); err != nil {
			return done, err
		}
		return Reindexed{Objects: 1}, nil
	}
	var last b3.Root
	for p, err := range n.Pins(ctx) { // ordered by address, so the pins of an object are adjacent
		if err != nil {
			return done, err
		}
		if p.Root == last {
			continue
		}
		last = p.Root
		switch _, err := n.Announce(ctx, p.Root.String()); {
		case err == nil:
			done.Objects++
		case ctx.Err() != nil:
			return done, err
		default:
			if done.Failed++; done.Error == nil {
				rep := status.ReportOf(err)
				done.Error = &rep
			}
		}
	}
	return done, nil
}

// Fetch implements Finder.
func (r remoteFinder) Fetch(ctx context.Context, key string, progress ProgressFunc) (Fetched, error) {
	return verbFetch.send(ctx, r.caller, r.Asked(key), progress, nil)
}

// Share implements Finder.
func (r remoteFinder) Share(ctx context.Context, key string, o ShareOptions) (Shared, error) {
	return verbShare.send(ctx, r.caller, shareRequest{keyRequest{key}, o})
}

// ShareWeb implements Finder.
func (r remoteFinder) ShareWeb(ctx context.Context, key string, o WebOptions) iter.Seq2[WebShared, error] {
	return verbShareWeb.seq(ctx, r.caller, shareWebRequest{keyRequest{key}, o})
}

// Resolve implements Finder.
func (r remoteFinder) Resolve(ctx context.Context, key string, q Query) (Resolved, error) {
	return verbResolve.send(ctx, r.caller, resolveRequest{keyRequest{key}, q})
}

// Film implements Finder.
func (r remoteFinder) Film(ctx context.Context, lookup string) (Film, error) {
	return verbFilm.send(ctx, r.caller, filmRequest{lookup})
}

// Why implements Finder.
func (r remoteFinder) Why(ctx context.Context, keyOrID string) (Why, error) {
	return verbWhy.send(ctx, r.caller, whyRequest{keyOrID})
}

// Announce implements Finder.
func (r remoteFinder) Announce(ctx context.Context, key string) (Announced, error) {
	return verbAnnounce.send(ctx, r.caller, keyRequest{key})
}

// Reindex announces one object or, without a key, everything that is pinned.
func (a Admin) Reindex(ctx context.Context, r ReindexRequest) (Reindexed, error) {
	return adminReindex.repeat(ctx, a, r)
}

// How sure it is that a peer has an object, the lowest first.
const (
	Hint   = answer.Hint   // it announced the object by gossip, or served the directory of it
	Signed = answer.Signed // the DHT has its signed record
	Served = answer.Served // it sent verified bytes of the object, or is this node and has it
)

// The answers of /resolve and /providers. Peers send them to each other too (OAP1 §10), so they
// belong to the protocol.
type (
	// Provider is a peer that may have an object.
	Provider = answer.Provider
	// Resolved names the providers of an object, the best first.
	Resolved = answer.Resolved
	// Record is the signed record of a name.
	Record = answer.Record
	// Providers lists the providers of an object, the best first.
	Providers = answer.Providers
)

// MaxProviders is the highest limit of a Query (SPEC §9).
const MaxProviders = answer.MaxProviders

// MaxRegion is the length of the longest region, in bytes.
const MaxRegion = 32

// Query says which providers of an object are wanted.
type Query struct {
	// Limit is the most providers, 1 to MaxProviders; 0: the node's default.
	Limit int `query:"limit" most:"32" set:"a number from 1 to 32"`
	// Region takes only those that say they are there; empty: all.
	Region string `query:"region" most:"32" set:"a label of at most 32 bytes"`
	// MinFreshness takes only those whose record was signed at most so long ago; 0: all. No record lives for 30 days.
	MinFreshness time.Duration `query:"min_freshness" most:"720h" set:"a duration of at most 720h, such as 30m or 12h"`
	// Fresh asks the network, without the cache and the records of the node.
	Fresh bool `query:"fresh" doc:"asks the network, and uses neither the cache nor what this node knows"`
	// MaxStale also takes a record of a name that ended at most so long ago; 0: none. It is for Resolve alone.
	MaxStale time.Duration `query:"max_stale" most:"720h" set:"a duration of at most 720h, such as 10m or 1h"`
	All      bool          // go on until Limit are known or everyone was asked
}

// Check returns bad_request for a query that contradicts itself.
func (q Query) Check() error {
	if q.MaxStale != 0 && q.Fresh {
		return status.Errorf(status.BadRequest, "max_stale and fresh contradict each other. Leave one out")
	}
	return nil
}

// FindOptions modify FindProviders. It always goes on as Query.All says.
type FindOptions struct {
	Query
	Trace *Trace // is filled by the time the sequence ends, see Trace; nil: nobody asks
}

// FindRequest is the request of FindProviders, whose Query has no MaxStale.
type FindRequest struct {
	Key string `query:"key,required"`
	Query
	Trace bool `query:"trace" doc:"ends with a trace of the lookup"`
}

// ShareOptions modify Share.
type ShareOptions struct {
	// Name is suggested for the output; empty: the last name of the key, or none.
	Name string `query:"name" doc:"the name that the ticket suggests for the output"`
	// For is the time for which the ticket works; 0: it does not say.
	For time.Duration `query:"for" set:"a time such as 24h"`
}

// WebOptions modify ShareWeb.
type WebOptions struct {
	// Name names the object in pages and downloads; empty: the last name of the key, or its address.
	Name string `query:"name" doc:"the name of the file or directory"`
	// Listen is a host:port; empty: a free port of every address.
	Listen string `query:"listen" doc:"host:port to listen on; empty: a free port of every address"`
	// On puts the link on the gateway of a peer alone: OnRelay, or a peer ID or multiaddr. Empty: it is on this node.
	On string `query:"on" doc:"relay or a peer, whose gateway shows the link; empty: this node does"`
	// For is the time for which the link works; 0: as long as the request.
	For time.Duration `query:"for" set:"a time such as 24h"`
	// Downloads bounds the downloads; 0: any number.
	Downloads int `query:"downloads" most:"10000" set:"a number from 0 to 10,000" doc:"0: any number of downloads"`
}

// OnRelay is the WebOptions.On of a relay that this node uses.
const OnRelay = "relay"

// WebShared is a link that a browser opens, or what has happened to it.
type WebShared struct {
	Links    []WebLink `json:"links,omitempty"` // the longest reach first; a secret: anyone with one gets the object
	Root     b3.Root   `json:"root,omitzero"`
	Kind     Kind      `json:"kind,omitempty"`
	NotAfter time.Time `json:"not_after,omitzero"` // the end; zero: none

	Download *WebDownload `json:"download,omitempty"` // of items after the first
}

// WebLink is a URL, and who can open it.
type WebLink struct {
	URL   string    `json:"url"`
	Reach ReachFrom `json:"reach"` // machine, lan, unconfirmed or anyone
}

// WebDownload is a download that began, or that is whole.
type WebDownload struct {
	From  string `json:"from,omitempty"` // the network address of the client; empty on the gateway of a peer
	Whole bool   `json:"whole"`          // the client has all of the file or the archive
	Count int    `json:"count"`          // downloads so far, if the link allows a number of them; else 0
}

// PeerHas is the answer of a peer about the part of an object that it has.
type PeerHas struct {
	Peer string  `json:"peer"`
	Root b3.Root `json:"root"`
	Has  string  `json:"has"` // "all", "part" or "nothing"
}

// Shared is an object that a ticket leads to.
type Shared struct {
	Ticket   string    `json:"ticket"` // a secret: anyone with it can fetch the object
	Root     b3.Root   `json:"root"`
	Kind     Kind      `json:"kind"`
	Size     int64     `json:"size"`               // bytes of the object; for a directory, of its manifest
	Reach    string    `json:"reach"`              // where it works: "this machine", "this local network" or "anyone"
	NotAfter time.Time `json:"not_after,omitzero"` // the end; zero: none
}
