package node

import (
	"context"

	"allium/node/films"
	"allium/node/supervise"
	"allium/resolver/trace"
)

// startTrace makes the ring of lookups that `allium why` reads, and starts the recorder of films of slow ones.
func startTrace(ctx context.Context, n *Node) error {
	d := trace.Deps{Env: n.env(), Marks: ctx}
	recorder := films.New(n.env())
	service := supervise.Service{
		Name: "films", Owner: "node/films", Doc: "keeps what Go's tracer saw of slow lookups, for `allium why`",
		When: "`trace.films`", Run: recorder.Run,
	}
	if !n.cfg.Trace.Films || n.embedded {
		n.services.Declare(service)
		n.trace = trace.New(d)
		return nil
	}
	d.Films = recorder
	n.trace = trace.New(d)
	return n.services.Start(ctx, service)
}
