package admin

import (
	"net/http"
	"reflect"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/b3"
)

func (g *Handlers) getEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Get", Path: "get", Methods: exchange.Getting,
		Params:  exchange.ParamsOf(reflect.TypeFor[api.AskedRequest]()),
		Doc:     "Returns a file's bytes, or a directory as a tar stream.",
		Answers: streamAnswers(exchange.MediaBytes, exchange.MediaTar), Serve: g.apiGet,
	}
}

// apiGet streams a file's bytes or a directory as tar.
func (g *Handlers) apiGet(w *exchange.Response, r *http.Request, in exchange.Input) error {
	node, err := g.asking(w, r, in)
	if err != nil {
		return err
	}
	s, err := node.Get(r.Context(), in.Query.Text("key"))
	if err != nil {
		return exchange.CauseOf(r.Context(), err)
	}
	return sendStream(w, r, s)
}

func (g *Handlers) catEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Cat", Path: "cat", Methods: exchange.Getting,
		Doc: "Returns a range of a file's bytes.",
		Params: append(
			exchange.ParamsOf(reflect.TypeFor[api.AskedRequest]()),
			exchange.Param{Name: "start", Kind: exchange.IntegerParam, Doc: "the first byte, from 0"},
			exchange.Param{Name: "end", Kind: exchange.IntegerParam,
				Doc: "the byte after the last; -1: the end of the file"},
		),
		Answers: streamAnswers(exchange.MediaBytes), Serve: g.apiCat,
	}
}

// apiCat streams a range of a file's bytes.
func (g *Handlers) apiCat(w *exchange.Response, r *http.Request, in exchange.Input) error {
	rng := b3.Range{Start: in.Query.Int("start", 0), End: in.Query.Int("end", -1)}
	node, err := g.asking(w, r, in)
	if err != nil {
		return err
	}
	s, err := node.Cat(r.Context(), in.Query.Text("key"), rng)
	if err != nil {
		return exchange.CauseOf(r.Context(), err)
	}
	return sendStream(w, r, s)
}
