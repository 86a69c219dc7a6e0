package api

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"strings"

	"allium/protocols/status"
)

// Transport sends the requests of verbs to a node.
type Transport interface {
	// Value stores the answer, one value, in res, a pointer.
	Value(ctx context.Context, r Request, res any) error
	// Lines passes the progress and the items of an answer in lines on, and stores the result in res, a pointer.
	// progress and res may be nil. decode stores the item in what its pointer points to. An error of item ends
	// the request.
	Lines(
		ctx context.Context, r Request, progress ProgressFunc, item func(decode func(any) error) error, res any,
	) error
}

// Request is a request of a verb.
type Request struct {
	Method, Path string
	Query        url.Values
	Body         any    // sent as JSON; nil: the request has no body
	Key          string // the Idempotency-Key; empty: none
}

// Remote calls a node through a Transport. Its methods are those of Node that need no code of their own in the client.
type Remote struct {
	caller
	remoteReader
	remoteStore
	remoteFinder
	remoteCluster
	remotePublisher
	remoteNetwork
	remotePacks
	remoteControl
	remoteHealth
	remoteOverview
}

// The parts of Remote have the methods of one subject each.
type (
	remoteReader    struct{ caller }
	remoteStore     struct{ caller }
	remoteFinder    struct{ caller }
	remoteCluster   struct{ caller }
	remotePublisher struct{ caller }
	remoteNetwork   struct{ caller }
	remotePacks     struct{ caller }
	remoteControl   struct{ caller }
	remoteHealth    struct{ caller }
	remoteOverview  struct{ caller }
)

// caller sends requests to a node that asks some peers before others.
type caller struct {
	transport Transport
	ask       string // the peers, separated by commas
}

// NewRemote returns a Remote whose node asks some peers before others.
func NewRemote(t Transport, ask []string) Remote {
	c := caller{t, strings.Join(ask, ",")}
	return Remote{
		c, remoteReader{c}, remoteStore{c}, remoteFinder{c}, remoteCluster{c}, remotePublisher{c}, remoteNetwork{c},
		remotePacks{c}, remoteControl{c}, remoteHealth{c}, remoteOverview{c},
	}
}

// Asked returns the request about a key.
func (c caller) Asked(key string) AskedRequest { return AskedRequest{key, c.ask} }

// request returns the request of a verb at its path below /api/v1, or at its only one.
func (v *Verb) request(req any) Request {
	switch {
	case v.Path == "":
		return v.repeatable(Admin{}, req)
	case v.JSON:
		return Request{Method: v.Method(), Path: PathPrefix + v.Path, Body: req}
	}
	return Request{Method: v.Method(), Path: PathPrefix + v.Path, Query: EncodeQuery(req)}
}

// PathPrefix begins the paths of the local API.
const PathPrefix = "/api/v1/"

// send calls the verb.
func (v valueVerb[Req, Res]) send(ctx context.Context, c caller, req Req) (res Res, err error) {
	err = c.transport.Value(ctx, v.request(req), &res)
	return res, err
}

// do calls a verb without result.
func (v valueVerb[Req, Res]) do(ctx context.Context, c caller, req Req) error {
	_, err := v.send(ctx, c, req)
	return err
}

// send calls the verb, and passes its progress and its items on. A nil item refuses every item.
func (v linesVerb[Req, Item, Res]) send(
	ctx context.Context, c caller, req Req, progress ProgressFunc, item func(Item) error,
) (res Res, err error) {
	err = v.read(ctx, c, req, progress, item, &res)
	return res, err
}

func (v linesVerb[Req, Item, Res]) read(
	ctx context.Context, c caller, req Req, progress ProgressFunc, item func(Item) error, res any,
) error {
	return c.transport.Lines(ctx, v.request(req), progress, func(decode func(any) error) error {
		if item == nil {
			return status.Errorf(status.Upstream,
				"the node's answer has an item where none belongs; check that the node is of this version of allium")
		}
		var got Item
		if err := decode(&got); err != nil {
			return err
		}
		return item(got)
	}, res)
}

// seq returns the items of the verb's answer. Each iteration sends the request anew.
func (v linesVerb[Req, Item, Res]) seq(ctx context.Context, c caller, req Req) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		err := v.read(ctx, c, req, nil, func(got Item) error {
			if !yield(got, nil) {
				return errStop
			}
			return nil
		}, nil)
		if err != nil && !errors.Is(err, errStop) {
			var zero Item
			yield(zero, err)
		}
	}
}

// errStop ends a request when the caller of a sequence stops early.
var errStop = errors.New("api: stopped")

// Admin calls the mutations of the admin listener. With a key, a call is safe to
// repeat for a day or until the node restarts: the node returns the first answer.
type Admin struct {
	remote caller
	key    string // Idempotency-Key
}

// Admin returns the mutations with an Idempotency-Key. An empty key sends none.
func (c caller) Admin(key string) Admin { return Admin{c, key} }

// repeatable returns the request of a verb at its path below /admin.
func (v *Verb) repeatable(a Admin, req any) Request {
	return Request{Method: v.Method(), Path: "/admin/" + v.Admin, Body: req, Key: a.key}
}

// repeat calls the verb below /admin.
func (v valueVerb[Req, Res]) repeat(ctx context.Context, a Admin, req Req) (res Res, err error) {
	err = a.remote.transport.Value(ctx, v.repeatable(a, req), &res)
	return res, err
}
