package admin

import (
	"context"
	"net/http"
	"reflect"
	"sync"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/address"
	"allium/protocols/status"
)

// writeFileEndpoint is the verb that writes a file which the client has created.
func (g *Handlers) writeFileEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "GetFile", Path: "get/file", Methods: exchange.Getting,
		Doc: "Writes a file's bytes to the empty regular file whose descriptor the client passes over the Unix socket.",
		More: "The descriptor comes with the first bytes of the request (SCM_RIGHTS). Each 64 KiB is proved " +
			"before it is written, at its place and in any order. The file is whole only after the last line of the " +
			"answer. `allium get` gives it its name then. With the parameter path, the node may replace the file by " +
			"one of its store instead; the answer then has \"moved\": true.",
		Params:  exchange.ParamsOf(reflect.TypeFor[api.GetFileRequest]()),
		Answers: linesOf[struct{}, api.Written]("progress, and how the file was written"),
		Serve:   g.apiGetFile,
	}
}

// apiGetFile writes a file's bytes to a file of the client.
func (g *Handlers) apiGetFile(w *exchange.Response, r *http.Request, in exchange.Input) error {
	f := w.PassedFile()
	if f == nil {
		return status.Errorf(status.BadRequest,
			"the request has no open file: pass one over the Unix socket, or use the verb get")
	}
	defer f.Close()
	want, err := address.Root(in.Query.Text("root"))
	if err != nil {
		return err
	}
	node, err := g.asking(w, r, in)
	if err != nil {
		return err
	}
	l := &lines{w: w, r: r, flush: flushEach}
	written, err := g.runWithProgress(r.Context(), l, func(
		ctx context.Context, report api.ProgressFunc, item func(any) bool,
	) (any, error) {
		s, err := node.Get(ctx, in.Query.Text("key"))
		if err != nil {
			return nil, err
		}
		defer s.Body.Close()
		switch {
		case s.Root != want:
			return nil, status.Errorf(status.Conflict, "the key stands for %s now, not for %s", s.Root, want)
		case s.WriteFile == nil:
			return nil, status.Errorf(status.Unsupported,
				"this node does not write such an object to a file; use the verb get")
		}
		// The first line tells the client that it needs no stream of the object any more. A reader of the
		// stream would keep the file of the object from being moved.
		begun := sync.OnceFunc(func() { item(api.Progress{TotalBytes: s.Size, Resumed: s.Resumed}) })
		moved, err := s.WriteFile(f, in.Query.Text("path"), func(p api.Progress) {
			begun()
			report(p)
		})
		return api.Written{Moved: moved}, err
	})
	_ = f.Close() // before the client learns that it is written, and may want its disk back
	return l.end(written, err)
}
